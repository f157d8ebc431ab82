"""The configuration file: where it is, how it is written, what wins over it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from firesteel.common import Configuration
from firesteel.common._home import HOME_VARIABLE
from firesteel.common.errors import InvalidOptionError
from firesteel.datastream import StreamExecutionEnvironment
from firesteel.datastream._configuration_file import CONF_DIR_VARIABLE
from firesteel.datastream._given_options import CLIENT_VARIABLE, configured_options


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(CONF_DIR_VARIABLE, str(tmp_path))
    return tmp_path / "config.yaml"


def environment(**options: str) -> StreamExecutionEnvironment:
    named = {key.replace("__", "."): value for key, value in options.items()}
    return StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(named))


def test_lines_are_keys_and_values(file: Path) -> None:
    file.write_text(
        "# for all jobs\n\n"
        "execution.checkpointing.interval: 10 s\n"
        "state.checkpoints.dir: file:///shared/checkpoints   # on all machines\n"
        "pipeline.name: 'a # b: c'\n"
        "parallelism.default:    3\n"
        "---\n",
        encoding="utf-8",
    )
    env = environment()
    assert env.get_checkpoint_interval() == 10_000
    assert env.get_configuration().to_dict() == {
        "execution.checkpointing.interval": "10 s",
        "execution.checkpointing.dir": "file:///shared/checkpoints",
        "pipeline.name": "a # b: c",
        "parallelism.default": "3",
    }


def test_what_is_nearer_to_the_job_wins(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_text("parallelism.default: 2\nstate.backend: rocksdb\n", encoding="utf-8")
    assert environment().get_parallelism() == 2
    assert environment(parallelism__default="3").get_parallelism() == 3
    # An older name in one place does not hide the present one in the other.
    chosen = environment(state__backend__type="hashmap").get_configuration()
    assert chosen.get_string("state.backend.type", "") == "hashmap"
    monkeypatch.setenv(CLIENT_VARIABLE, json.dumps({"parallelism.default": "4"}))
    assert environment(parallelism__default="3").get_parallelism() == 4
    assert environment().set_parallelism(5).get_parallelism() == 5


def test_the_file_of_the_user_serves_when_no_directory_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(CONF_DIR_VARIABLE, raising=False)
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path))
    assert configured_options().to_dict() == {}
    (tmp_path / "config.yaml").write_text("pipeline.name: mine", encoding="utf-8")
    assert configured_options().to_dict() == {"pipeline.name": "mine"}


def test_a_directory_without_a_file_is_refused(file: Path) -> None:
    with pytest.raises(
        InvalidOptionError, match=rf"{CONF_DIR_VARIABLE} is .*, but there is no file .*config.yaml"
    ):
        environment()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "parallelism.default 3\n",
            r"config.yaml, line 1: expected 'key: value', got 'parallelism.default 3'",
        ),
        ("\nparallelism:\n  default: 3\n", r"config.yaml, line 3: .*write the whole key on one line"),
        ("pipeline.name: a\npipeline.name: b\n", r"config.yaml, line 2: 'pipeline.name' is there twice"),
        (
            "firesteel.chunk.record: 3\n",
            r"config.yaml: unknown option 'firesteel.chunk.record'; did you mean",
        ),
        (
            "parallelism.default: many\n",
            r"config.yaml: option 'parallelism.default': cannot understand 'many'",
        ),
    ],
)
def test_mistakes_are_shown_with_their_place(file: Path, text: str, expected: str) -> None:
    file.write_text(text, encoding="utf-8")
    with pytest.raises(InvalidOptionError, match=expected):
        environment()
