"""How stores are opened: whose word counts about keys and addresses, and that keys stay secret."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from firesteel.checkpoint.object_stores import (
    _address,
    _credentials,
    open_file_system,
    reason_of,
    without_secrets,
)
from firesteel.common import _redaction, _store_settings
from firesteel.common._store_settings import StoreSettings
from firesteel.common.configuration import Configuration
from firesteel.common.errors import StorageError

GIVEN = {"s3.endpoint": "http://127.0.0.1:9000", "s3.access-key": "key", "s3.secret-key": "very-secret"}


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    _store_settings.use_only(Configuration())
    yield
    _store_settings.use_only(Configuration())


def settings(**given: str) -> StoreSettings:
    return StoreSettings.of(Configuration.from_dict(given))


def test_the_uri_counts_more_than_options_and_they_more_than_the_environment() -> None:
    environ = {"AWS_ENDPOINT_URL": "https://environment", "AWS_REGION": "r1", "AWS_DEFAULT_REGION": "r0"}
    options = settings(**{"s3.endpoint": "http://options:1", "s3.region": "r2"})
    uri = {"endpoint_override": "uri:2", "scheme": "http", "region": "r3"}

    def found(*given: object) -> tuple[str, str, str]:
        address = _address(*given)  # type: ignore[arg-type]
        return address["endpoint_override"], address["scheme"], address["region"]

    assert found({}, StoreSettings(), environ) == ("environment", "https", "r1")
    assert found({}, options, environ) == ("options:1", "http", "r2")
    assert found(uri, options, environ) == ("uri:2", "http", "r3")


def test_amazon_is_asked_for_the_region_when_nobody_says_it() -> None:
    assert _address({}, StoreSettings(), {}) == {}
    assert _address({}, settings(**{"s3.endpoint": "host"}), {})["region"] == "us-east-1"


@pytest.mark.parametrize(("given", "virtual"), [({}, False), ({"s3.path.style.access": "false"}, True)])
def test_the_bucket_is_in_the_path_at_an_endpoint_of_ones_own(given: dict[str, str], virtual: bool) -> None:
    address = _address({}, settings(**{"s3.endpoint": "host:1", **given}), {})
    assert address["force_virtual_addressing"] is virtual
    assert address["scheme"] == "https"


@pytest.mark.parametrize("prefix", ["s3.", "s3a.", "fs.s3a."])
def test_other_spellings_mean_the_same(prefix: str) -> None:
    found = settings(
        **{f"{prefix}access.key": "key", f"{prefix}secret.key": "secret", f"{prefix}endpoint": "host"}
    )
    assert (found.access_key, found.secret_key, found.endpoint) == ("key", "secret", "host")


def test_keys_are_those_of_the_options_or_left_to_the_client() -> None:
    assert _credentials("bucket", StoreSettings()) == {}
    assert _credentials("bucket", settings(**GIVEN)) == {"access_key": "key", "secret_key": "very-secret"}
    assert _credentials("a:b%2F@bucket", settings(**GIVEN)) == {"access_key": "a", "secret_key": "b/"}
    with pytest.raises(StorageError, match=r"'s3.secret-key' is given, but 's3.access-key' is not"):
        _credentials("bucket", settings(**{"s3.secret-key": "x"}))


def test_keys_are_in_no_text() -> None:
    configuration = Configuration.from_dict(GIVEN)
    texts = [repr(configuration), str(configuration), repr(StoreSettings.of(configuration))]
    assert all("very-secret" not in text for text in texts)
    assert all("127.0.0.1:9000" in text for text in texts)
    assert without_secrets("s3://key:very-secret@bucket/a b?region=x") == "s3://bucket/a b?region=x"
    assert _redaction.public_options(GIVEN) == {"s3.endpoint": "http://127.0.0.1:9000"}
    assert set(_redaction.secret_options(GIVEN)) == {"s3.access-key", "s3.secret-key"}


def test_a_job_that_says_nothing_leaves_settings_and_one_that_says_something_else_warns(
    caplog: pytest.LogCaptureFixture,
) -> None:
    _store_settings.use(Configuration.from_dict(GIVEN))
    _store_settings.use(Configuration())
    assert _store_settings.current().endpoint == "http://127.0.0.1:9000"
    assert caplog.text == ""
    with caplog.at_level(logging.WARNING):
        _store_settings.use(Configuration.from_dict({"s3.endpoint": "http://other"}))
    assert "a process has one set of them" in caplog.text
    assert _store_settings.current().endpoint == "http://other"


def test_a_path_in_a_bucket_is_found() -> None:
    _store_settings.use(Configuration.from_dict(GIVEN))
    file_system, path = open_file_system("s3a://bucket/a/b/")
    assert (file_system.type_name, path, file_system.region) == ("s3", "bucket/a/b", "us-east-1")


def test_an_unknown_scheme_is_told() -> None:
    with pytest.raises(StorageError, match="unknown scheme 'ftp'; use a local path, or a URI with file, s3"):
        open_file_system("ftp://host/a")


def test_reasons_that_are_known_come_with_a_remedy() -> None:
    refused = OSError("When listing: AWS Error ACCESS_DENIED during ListObjectsV2 operation: no\nmore")
    assert reason_of(refused).startswith("the store refuses these keys; check 's3.access-key'")
    assert reason_of(OSError("something else\nmore")) == "something else"
