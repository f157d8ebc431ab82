"""What is hidden from people, and what is not."""

from __future__ import annotations

import subprocess
import sys

import pytest

from firesteel.common import Configuration
from firesteel.common._redaction import (
    HIDDEN,
    is_sensitive,
    public_options,
    redacted,
    redacted_text,
    secret_options,
)
from firesteel.common.config_options import ConfigOptions
from firesteel.common.errors import InvalidOptionError

SECRET = "hunter2-do-not-tell"


@pytest.mark.parametrize(
    "key",
    [
        "password", "my.db.Password", "s3.secret-key", "fs.s3a.access.key", "fs.azure.account.key.x", "apikey", "x.api-key",
        "properties.sasl.jaas.config", "security.ssl.internal.keystore-password", "basic-auth.credentials", "service-key",
        "http-headers", "FIRESTEEL_REST_TOKEN", "auth-params", "ssl.key.passphrase",
    ],
)  # fmt: skip
def test_keys_that_sound_like_a_secret_are_hidden(key: str) -> None:
    assert redacted({key: SECRET}) == {key: HIDDEN}
    assert secret_options({key: SECRET}) == {key: SECRET}
    assert public_options({key: SECRET}) == {}


@pytest.mark.parametrize(
    "key",
    ["parallelism.default", "firesteel.rest.tokens-file", "security.ssl.rest.key-file", "rest.port", "keys"],
)
def test_other_keys_are_shown(key: str) -> None:
    assert redacted({key: "shown"}) == {key: "shown"}


@pytest.mark.parametrize(
    "text",
    [
        f"https://me:{SECRET}@host:8080/x",
        f"redis://:{SECRET}@host/0",
        f"-Xmx1g -Djavax.net.ssl.keyStorePassword={SECRET} -Dx=y",
        f"rate:5,api-key:{SECRET},name:x",
        f'org.Login required username="u" password="{SECRET}";',
        f"password='{SECRET}'",
        f'{{"my.secret": "{SECRET}"}}',
        f"https://host/?user=u&token={SECRET}&x=1",
    ],
)
def test_secrets_inside_of_other_values_are_hidden_where_they_stand(text: str) -> None:
    shown = redacted_text(text)
    assert SECRET not in shown
    assert HIDDEN in shown
    assert redacted({"env.java.opts.all": text}) == {"env.java.opts.all": shown}
    assert redacted_text(shown).count(HIDDEN) == shown.count(HIDDEN)


def test_what_is_no_secret_stays_as_it_is() -> None:
    for text in ("https://host:8080/a@b", "a:b,c:d", "-Dx=y", "me@example.org", "one two", "12:30:00"):
        assert redacted_text(text) == text


def test_keys_can_be_marked() -> None:
    configuration = (
        Configuration().set_secret("bank.pin", SECRET).set_secret("other.pin", SECRET).set_string("x", "y")
    )
    for text in (str(configuration), repr(configuration)):
        assert SECRET not in text
        assert "'y'" in text or "x=y" in text
    options = configuration.to_dict()
    assert options["firesteel.redaction.keys-of-program"] == "bank.pin;other.pin"
    assert set(secret_options(options)) == {"bank.pin", "other.pin"}
    both = {**options, "firesteel.redaction.keys": "their.pin", "their.pin": SECRET}
    assert SECRET not in str(redacted(both)), "who marks others on the command line takes no mark away"
    assert is_sensitive("bank.pin", ["bank.pin"])
    assert not is_sensitive("bank.name", ["bank.pin"])


def test_the_error_about_a_secret_value_does_not_quote_it() -> None:
    option = ConfigOptions.key("my.token").int_type().default_value(1)
    with pytest.raises(InvalidOptionError) as caught:
        option.parse(SECRET)
    assert "my.token" in str(caught.value)
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="elsewhere the words of a command cannot be overwritten"
)
def test_secrets_of_a_command_line_do_not_stay_in_the_list_of_processes() -> None:
    code = (
        "import sys; from firesteel.cli.process_list import hide_secrets; hide_secrets(sys.argv[1:]);"
        "sys.stdout.buffer.write(open('/proc/self/cmdline', 'rb').read()); print(sys.argv[-1])"
    )
    words = [
        "-D",
        f"my.password={SECRET}",
        f"-Ds3.secret-key={SECRET}",
        "-D",
        "x=shown",
        "-D",
        "firesteel.redaction.keys=pin",
    ]
    last = f"-Dbank.pin={SECRET}"
    done = subprocess.run(
        [sys.executable, "-c", code, *words, last], capture_output=True, text=True, check=True
    )
    shown, _, own = done.stdout.rpartition("\0")
    assert SECRET not in shown
    assert "my.password=***" in shown
    assert "x=shown" in shown
    assert own.strip() == last, "the process itself still has it"
