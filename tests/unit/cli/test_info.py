"""``firesteel info``: the plan of a program that does not run."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from firesteel.cli.main import main

Programs = Callable[..., str]


def info(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["info", *arguments])


def test_plan_goes_to_standard_output_and_the_programs_words_to_standard_error(program: Programs) -> None:
    script = program("import engine; print('building'); engine.execute('fail'); print('done')")
    result = info("-p", "3", script)
    assert result.exit_code == 0
    assert result.stdout.startswith("fail: STREAMING, ")
    assert "x3" in result.stdout
    assert result.stderr == "building\ndone\n"


JOBS = """
    from firesteel.datastream import StreamExecutionEnvironment

    env = StreamExecutionEnvironment.get_execution_environment()
    with env.from_collection([1, 2]).execute_and_collect("first") as results:
        print(list(results))
    env.from_collection([1]).map(lambda v: 1 / 0).print()
    print(env.execute_async("second").get_job_execution_result().result().get_all_accumulator_results())
    env.from_collection([1]).print()
    print(env.execute("third").get_all_accumulator_results())
"""


def test_every_job_of_a_program_is_shown_and_has_no_results(program: Programs) -> None:
    result = info(program(JOBS))
    assert result.exit_code == 0, result.stderr
    names = [line.partition(":")[0] for line in result.stdout.splitlines() if " slot" in line]
    assert names == ["first", "second", "third"]
    assert "\n\nsecond: " in result.stdout
    assert result.stderr == "[]\n{}\n{}\n"


def test_checkpoints_of_a_job_that_only_shows_its_plan_are_left_alone(
    program: Programs, tmp_path: Path
) -> None:
    script = program("""
        from firesteel.datastream import StreamExecutionEnvironment

        env = StreamExecutionEnvironment.get_execution_environment()
        env.enable_checkpointing(100)
        env.from_collection([1]).print()
        env.execute("with checkpoints")
    """)
    directory = tmp_path / "checkpoints"
    result = info(
        "-s", str(tmp_path / "not there"), "--resume", f"-Dstate.checkpoints.dir={directory}", script
    )
    assert result.exit_code == 0, result.stderr
    assert result.stdout.startswith("with checkpoints: ")
    assert result.stderr == ""
    assert not directory.exists()


def test_plans_of_several_jobs_are_several_json_documents(program: Programs) -> None:
    text = info("--format", "json", program("import engine; engine.execute('a'); engine.execute('b')")).stdout
    decoder = json.JSONDecoder()
    first, end = decoder.raw_decode(text)
    second, _ = decoder.raw_decode(text[end:].lstrip())
    assert len(first["nodes"]) == len(second["nodes"]) == 2


def test_an_error_after_the_first_job_is_shown_behind_its_plan(program: Programs) -> None:
    script = program("import engine; engine.execute('hello'); raise ValueError('no results?')")
    result = info(script)
    assert result.exit_code == 0
    assert result.stdout.startswith("hello: ")
    assert result.stderr.startswith("the program failed after 1 job")
    assert "no results?" in result.stderr


def test_plan_as_mermaid(program: Programs) -> None:
    result = info("--format", "mermaid", program("import engine; engine.execute('x')"))
    assert result.stdout.startswith("flowchart LR\n")


def test_plan_as_flinks_json(program: Programs) -> None:
    result = info("--format", "json", "-p", "2", program("import engine; engine.execute('x')"))
    nodes = json.loads(result.stdout)["nodes"]
    assert [node["parallelism"] for node in nodes] == [2, 2]


def test_program_without_a_job_has_no_plan(program: Programs) -> None:
    for text in ("x = 1", "raise SystemExit"):
        result = info(program(text))
        assert result.exit_code == 1
        assert "without calling execute()" in result.stderr


def test_error_of_the_program_is_shown(program: Programs) -> None:
    result = info(program("1 / 0"))
    assert result.exit_code == 1
    assert "ZeroDivisionError" in result.stderr


KAFKA = """
    from firesteel.common import SimpleStringSchema, WatermarkStrategy
    from firesteel.datastream import StreamExecutionEnvironment
    from firesteel.datastream.connectors.kafka import KafkaRecordSerializationSchema, KafkaSink, KafkaSource

    login = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.username": "ann", "sasl.password": "Sesame42"}
    source = KafkaSource.builder().set_bootstrap_servers("localhost:1").set_topics("t").set_properties(login)
    source.set_value_only_deserializer(SimpleStringSchema())
    record = KafkaRecordSerializationSchema.builder().set_topic("t")
    record.set_value_serialization_schema(SimpleStringSchema())
    sink = KafkaSink.builder().set_bootstrap_servers("localhost:1").set_record_serializer(record.build())
    for key, value in login.items():
        sink.set_property(key, value)
    env = StreamExecutionEnvironment.get_execution_environment()
    stream = env.from_source(source.build(), WatermarkStrategy.no_watermarks(), "topic")
    stream.sink_to(sink.build())
    env.execute("copy")
"""


@pytest.mark.parametrize("form", ["text", "mermaid", "json"])
def test_plans_have_no_passwords(program: Programs, form: str) -> None:
    result = info("--format", form, program(KAFKA))
    assert result.exit_code == 0, result.stderr
    assert "topic" in result.stdout
    assert "Sesame42" not in result.stdout + result.stderr
