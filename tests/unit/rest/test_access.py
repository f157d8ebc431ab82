"""Tokens and roles, and what the settings of the REST interface refuse."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from firesteel.cli.main import main
from firesteel.common.configuration import Configuration
from firesteel.common.errors import InvalidOptionError
from firesteel.control.certificates import FILES
from firesteel.rest.access import Role, TokenFile, hashed, new_token, read_tokens
from firesteel.rest.errors import Unauthorized
from firesteel.rest.guard import is_too_large
from firesteel.rest.paths import ENDPOINTS
from firesteel.rest.settings import RestSettings, read_rest_settings


def tokens_in(path: Path, text: str) -> str:
    path.write_text(text)
    path.chmod(0o600)
    return str(path)


def bearer(token: str) -> str:
    return f"Bearer {token}"


def settings_of(**options: object) -> RestSettings:
    settings = read_rest_settings(
        Configuration.from_dict({key.replace("_", "."): str(value) for key, value in options.items()})
    )
    assert settings is not None
    return settings


# Tokens.


def test_a_token_has_the_role_of_its_line_whether_hashed_or_not(tmp_path: Path) -> None:
    operator, reader = new_token(), new_token()
    path = tokens_in(tmp_path / "tokens", f"# who\n\noperator {hashed(operator)} alice\nread-only {reader}\n")
    tokens = TokenFile(path)
    assert tokens.role_of(bearer(operator)) is Role.OPERATOR
    assert tokens.role_of(f"bearer   {reader} ") is Role.READ_ONLY
    assert [entry.name for entry in read_tokens(path)] == ["alice", ""]


@pytest.mark.parametrize(
    "header", [None, "", "Bearer", "Bearer ", "Basic YTpi", bearer("guess"), bearer("\udcff")]
)
def test_everybody_else_is_unknown(tmp_path: Path, header: str | None) -> None:
    tokens = TokenFile(tokens_in(tmp_path / "tokens", f"operator {hashed(new_token())}\n"))
    with pytest.raises(Unauthorized):
        tokens.role_of(header)


def test_the_hash_of_a_token_is_no_token(tmp_path: Path) -> None:
    line = hashed(new_token())
    tokens = TokenFile(tokens_in(tmp_path / "tokens", f"operator {line}\n"))
    for guess in (line, line.removeprefix("sha256:")):
        with pytest.raises(Unauthorized):
            tokens.role_of(bearer(guess))


def test_a_token_that_is_taken_back_or_added_is_noticed(tmp_path: Path) -> None:
    first, second = new_token(), new_token()
    path = tmp_path / "tokens"
    tokens = TokenFile(tokens_in(path, f"operator {hashed(first)}\n"))
    tokens_in(path, f"read-only {hashed(second)} the second one\n")
    assert tokens.role_of(bearer(second)) is Role.READ_ONLY
    with pytest.raises(Unauthorized):
        tokens.role_of(bearer(first))


@pytest.mark.parametrize("broken", ["nonsense\n", "", None])
def test_a_file_that_cannot_be_read_any_more_lets_nobody_in(tmp_path: Path, broken: str | None) -> None:
    token, path = new_token(), tmp_path / "tokens"
    tokens = TokenFile(tokens_in(path, f"operator {hashed(token)}\n"))
    if broken is None:
        path.unlink()
    else:
        tokens_in(path, broken)
    with pytest.raises(Unauthorized, match="cannot be used"):
        tokens.role_of(bearer(token))
    tokens_in(path, f"operator {hashed(token)} again\n")
    assert tokens.role_of(bearer(token)) is Role.OPERATOR


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("admin a-token-long-enough", "read-only, operator"),
        ("operator short", "16 to 512"),
        ("operator", "16 to 512"),
        ("operator sha256:beef", "64 hexadecimal"),
        ("", "has no token"),
    ],
)
def test_a_wrong_line_is_named_and_not_quoted(tmp_path: Path, line: str, words: str) -> None:
    path = tokens_in(tmp_path / "tokens", f"# first\n{line}\n")
    with pytest.raises(InvalidOptionError, match=words) as caught:
        read_tokens(path)
    assert "firesteel.rest.tokens-file" in str(caught.value)
    assert not line or ("line 2" in str(caught.value) and line not in str(caught.value))


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o602])
def test_a_file_that_others_can_read_is_refused(tmp_path: Path, mode: int) -> None:
    path = tokens_in(tmp_path / "tokens", f"operator {hashed(new_token())}\n")
    os.chmod(path, mode)
    if os.geteuid() == 0 and mode == 0o640:
        read_tokens(path)  # root's files may be for a group: mounted secrets are
        os.chown(path, 65534, -1)
    with pytest.raises(InvalidOptionError, match="chmod 600"):
        read_tokens(path)


# Roles.


def test_what_changes_something_is_for_operators() -> None:
    assert {endpoint.role for endpoint in ENDPOINTS if endpoint.method != "GET"} == {Role.OPERATOR}
    assert {endpoint.role for endpoint in ENDPOINTS if endpoint.method == "GET"} >= {Role.READ_ONLY}
    assert Role.OPERATOR.may(Role.READ_ONLY)
    assert not Role.READ_ONLY.may(Role.OPERATOR)


# Settings.


def test_with_tokens_or_certificates_other_machines_may_ask(tmp_path: Path) -> None:
    tokens = tokens_in(tmp_path / "tokens", f"operator {hashed(new_token())}\n")
    settings = settings_of(**{"rest.bind-address": "0.0.0.0", "firesteel.rest.tokens-file": tokens})
    assert settings.knows_clients
    assert not settings.is_loopback
    certificates = make(tmp_path / "certs")
    mutual = {**certificates, "security.ssl.rest.authentication-enabled": "true"}
    assert settings_of(**{"rest.bind-address": "10.0.0.1", **mutual}).verifies_clients
    with pytest.raises(InvalidOptionError, match="can read and end jobs"):
        settings_of(**{"rest.bind-address": "10.0.0.1", **certificates})


def make(directory: Path) -> dict[str, str]:
    """New certificates, and the options that name them."""
    made = CliRunner().invoke(main, ["certificates", str(directory), "--host", "stream.example"])
    assert made.exit_code == 0, made.output
    return {
        "security.ssl.rest.enabled": "true",
        "security.ssl.rest.cert-file": str(directory / "cert.pem"),
        "security.ssl.rest.key-file": str(directory / "key.pem"),
        "security.ssl.rest.ca-file": str(directory / "ca.pem"),
    }


def test_what_is_wrong_with_certificates_is_said_before_anything_listens(tmp_path: Path) -> None:
    good = make(tmp_path / "certs")
    other = make(tmp_path / "others")
    wrong = [
        ({"security.ssl.rest.enabled": "true"}, r"cert-file': it is not set.*firesteel certificates"),
        ({**good, "security.ssl.rest.key-file": str(tmp_path / "none")}, "key-file': there is no file"),
        ({**good, "security.ssl.rest.key-file": other["security.ssl.rest.key-file"]}, "cannot be used"),
        ({**good, "security.ssl.rest.cert-file": __file__}, "both in PEM"),
        ({**good, "security.ssl.rest.ca-file": __file__, MUTUAL: "true"}, "ca-file'.*in PEM"),
        ({k: v for k, v in good.items() if "ca-" not in k} | {MUTUAL: "true"}, "ca-file': it is not set"),
        ({MUTUAL: "true"}, "security.ssl.rest.enabled"),
    ]
    for options, words in wrong:
        with pytest.raises(InvalidOptionError, match=words):
            settings_of(**options)
    os.chmod(good["security.ssl.rest.key-file"], 0o644)
    with pytest.raises(InvalidOptionError, match="chmod 600"):
        settings_of(**good)


MUTUAL = "security.ssl.rest.authentication-enabled"


@pytest.mark.parametrize("length", ["11", "-1", "1e3", "", "9" * 30, "\u0661"])
def test_a_body_that_says_that_it_is_too_large_is_not_read(length: str) -> None:
    assert is_too_large({"content-length": length}, 10)
    assert not is_too_large({"content-length": "10"}, 10)
    assert not is_too_large({}, 10)


# Commands.


def test_the_commands_write_files_for_their_owner_alone(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o2770)  # where Firesteel's other files would be for the group
    file = tmp_path / "shared" / "tokens"
    runner = CliRunner()
    first = runner.invoke(main, ["token", str(file), "--name", "alice"])
    second = runner.invoke(main, ["token", str(file), "--role", "read-only"])
    assert (first.exit_code, second.exit_code) == (0, 0), first.output + second.output
    assert file.stat().st_mode & 0o777 == 0o600
    assert first.output.strip() not in file.read_text()
    tokens = TokenFile(str(file))
    assert tokens.role_of(bearer(first.output.strip())) is Role.OPERATOR
    assert tokens.role_of(bearer(second.output.strip())) is Role.READ_ONLY
    make(tmp_path / "shared" / "certs")
    written = list((tmp_path / "shared" / "certs").iterdir())
    assert {path.name for path in written} == {*FILES, "config.yaml", "guard.jar"}
    assert {path.stat().st_mode & 0o777 for path in written} == {0o600}
    again = runner.invoke(main, ["certificates", str(tmp_path / "shared" / "certs")])
    assert again.exit_code == 1
    assert "already" in again.output
