"""What one option makes of Spark's settings and of control connections."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from firesteel.common import Configuration
from firesteel.common.errors import InvalidOptionError
from firesteel.control.certificates import write_certificates
from firesteel.control.tls_socket import context_of
from firesteel.spark import tls
from firesteel.spark.endpoint_secret import EndpointInFile, resolved
from firesteel.spark.settings import session_settings

ON = {"security.ssl.internal.enabled": "true"}


def settings(local: bool, **options: str) -> dict[str, str]:
    return session_settings(Configuration.from_dict(options), local=local)


@pytest.fixture
def stores(tmp_path: Path) -> dict[str, str]:
    """The options of a cluster whose machines have everything."""
    write_certificates(tmp_path / "certs", [], 2, "a password")
    (tmp_path / "certs" / "guard.jar").write_bytes(b"")
    return {
        **ON,
        "security.ssl.internal.keystore": str(tmp_path / "certs" / "keystore.p12"),
        "security.ssl.internal.keystore-password": "a password",
        "security.ssl.internal.truststore": str(tmp_path / "certs" / "truststore.p12"),
        "security.ssl.internal.truststore-password": "a password",
    }


def test_without_the_option_nothing_is_encrypted_that_was_not_before() -> None:
    assert not any(key.startswith("spark.ssl.") for local in (True, False) for key in settings(local))
    assert tls.control_identity(Configuration()) is None


def test_the_embedded_spark_has_stores_of_its_own_that_nobody_else_can_read() -> None:
    found = settings(True, **ON)
    paths = [found["spark.ssl.rpc.keyStore"], found["spark.ssl.rpc.trustStore"]]
    assert [os.stat(path).st_mode & 0o777 for path in paths] == [0o600, 0o600]
    assert "-Dfiresteel.client.certificates=true" in found["spark.driver.extraJavaOptions"]
    assert found["spark.ssl.rpc.keyStorePassword"] not in found["spark.driver.extraJavaOptions"]
    assert settings(True, **ON) == found, "the JVM that was started early has the same"
    identity = tls.control_identity(Configuration.from_dict(ON))
    assert identity is not None
    assert identity == tls.control_identity(Configuration.from_dict(ON))
    assert b"PRIVATE" not in repr(identity).encode()
    context_of(identity, is_server=True)
    context_of(identity, is_server=False)


def test_a_cluster_has_the_stores_of_its_machines_and_executors_the_guard(stores: dict[str, str]) -> None:
    found = settings(
        False,
        **stores,
        **{"spark.executor.extraClassPath": "/mine.jar", "env.java.opts.taskmanager": "-Dmine=1"},
    )
    assert found["spark.ssl.rpc.enabled"] == "true"
    assert found["spark.ssl.rpc.keyStore"] == stores["security.ssl.internal.keystore"]
    assert found["spark.ssl.rpc.keyPassword"] == "a password"
    guard, _, rest = found["spark.executor.extraClassPath"].partition(":")
    assert (Path(guard).name, Path(guard).parent) == (
        "guard.jar",
        Path(stores["security.ssl.internal.keystore"]).parent,
    )
    assert rest == "/mine.jar"
    assert found["spark.executor.extraJavaOptions"].split() == ["-Dmine=1", *tls.GUARD_OPTIONS]
    assert "spark.ssl" not in found["spark.executor.extraJavaOptions"]


def test_what_a_cluster_lacks_is_said_before_anything_starts(stores: dict[str, str]) -> None:
    with pytest.raises(InvalidOptionError, match=r"keystore': it is not set.*firesteel certificates"):
        settings(False, **ON)
    for key in stores.keys() - ON.keys():
        with pytest.raises(InvalidOptionError, match=f"option '{key}': it is not set"):
            settings(False, **{k: v for k, v in stores.items() if k != key})
    with pytest.raises(InvalidOptionError, match="there is no file '/none'"):
        settings(False, **{**stores, "security.ssl.internal.truststore": "/none"})
    (Path(stores["security.ssl.internal.keystore"]).parent / "guard.jar").unlink()
    with pytest.raises(InvalidOptionError, match=r"guard\.jar"):
        settings(False, **stores)


def test_certificates_of_ones_own_go_to_the_tasks(tmp_path: Path) -> None:
    write_certificates(tmp_path / "certs", [], 2, "a password")
    options = {f"security.ssl.internal.{kind}-file": str(tmp_path / "certs" / f"{name}.pem") for kind, name in
               (("cert", "cert"), ("key", "key"), ("ca", "ca"))}  # fmt: skip
    identity = tls.control_identity(Configuration.from_dict({**ON, **options}))
    assert identity is not None
    assert identity.key == (tmp_path / "certs" / "key.pem").read_bytes()
    with pytest.raises(InvalidOptionError, match=r"security\.ssl\.internal\.key-file': it is not set"):
        tls.control_identity(
            Configuration.from_dict(
                {**ON, "security.ssl.internal.cert-file": str(tmp_path / "certs" / "cert.pem")}
            )
        )


def test_tasks_on_this_machine_read_the_key_from_a_file(tmp_path: Path) -> None:
    import json

    identity = tls.control_identity(Configuration.from_dict(ON))
    assert identity is not None
    (tmp_path / "secret").write_bytes(b"s" * 32)
    parts = {"authority": identity.authority, "certificate": identity.certificate, "key": identity.key}
    (tmp_path / "tls").write_text(json.dumps({name: part.decode() for name, part in parts.items()}))
    endpoint = resolved(EndpointInFile("host", 1, str(tmp_path / "secret"), str(tmp_path / "tls")))
    assert (endpoint.secret, endpoint.tls) == (b"s" * 32, identity)
