"""What the embedded Spark and clusters are told so that nobody else gets in."""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path

import pytest

import firesteel.spark
from firesteel.common.configuration import Configuration
from firesteel.common.errors import InvalidOptionError
from firesteel.common.options import JOBMANAGER_PORT
from firesteel.datastream._given_options import checked
from firesteel.plan.executor import Listening
from firesteel.spark.jvm_process import properties
from firesteel.spark.session import listening_beside
from firesteel.spark.settings import AUTHENTICATION, session_settings
from firesteel.testing import simulated_environment

GUARD = Path(firesteel.spark.__file__).parent / "guard"


def options(**given: str) -> Configuration:
    return Configuration.from_dict({key.replace("_", "."): value for key, value in given.items()})


def test_embedded_spark_listens_on_loopback_and_authenticates() -> None:
    settings = session_settings(Configuration(), local=True)
    assert settings["spark.driver.host"] == settings["spark.driver.bindAddress"] == "127.0.0.1"
    assert settings.items() >= AUTHENTICATION.items()
    assert "io.netty.bootstrap.extensions=serviceload" in settings["spark.driver.extraJavaOptions"]
    assert settings["spark.driver.extraClassPath"] == str(GUARD / "guard.jar")


def test_class_path_of_the_user_comes_behind_the_guard() -> None:
    settings = session_settings(options(spark_driver_extraClassPath="/a.jar"), local=True)
    assert settings["spark.driver.extraClassPath"] == f"{GUARD / 'guard.jar'}:/a.jar"


def test_who_wants_to_open_it_can() -> None:
    settings = session_settings(options(spark_driver_host="10.0.0.1", spark_authenticate="false"), local=True)
    assert settings["spark.driver.host"] == "10.0.0.1"
    assert settings["spark.authenticate"] == "false"


def test_clusters_that_make_secrets_are_asked_for_one_and_others_are_not() -> None:
    assert session_settings(Configuration(), local=False, makes_secrets=True)["spark.authenticate"] == "true"
    assert "spark.authenticate" not in session_settings(Configuration(), local=False)
    with_service = options(spark_shuffle_service_enabled="true")
    assert "spark.authenticate" not in session_settings(with_service, local=False, makes_secrets=True)


def test_properties_can_hold_everything() -> None:
    text = properties({"spark.a": " b\\c=d:#e\n", "spark.ü": "ö"})
    assert text == "spark.a=\\ b\\\\c=d:#e\\n\nspark.ü=ö\n"


def test_guard_is_made_of_its_source() -> None:
    digest = hashlib.sha256((GUARD / "ChannelGuard.java").read_bytes()).hexdigest()
    with zipfile.ZipFile(GUARD / "guard.jar") as jar:
        manifest = jar.read("META-INF/MANIFEST.MF").decode()
    assert f"Source-SHA256: {digest}\n" in manifest, "ChannelGuard.java has changed: run scripts/guard"


# Addresses ------------------------------------------------------------------------------------------------


def test_job_master_listens_where_sparks_driver_does() -> None:
    assert listening_beside("driver.example", "10.0.0.5", Configuration()) == Listening(
        "driver.example", "10.0.0.5"
    )
    assert listening_beside("10.0.0.5", "10.0.0.5", Configuration()) == Listening("10.0.0.5")
    assert listening_beside("[fd00::1]", "[::]", Configuration()) == Listening("fd00::1", "::")


def test_address_bind_host_and_ports_can_be_chosen() -> None:
    chosen = Configuration.from_dict(
        {
            "jobmanager.rpc.address": "public.example",
            "jobmanager.bind-host": "0.0.0.0",
            "jobmanager.rpc.port": "50100-50102",
        }
    )
    wanted = Listening("public.example", "0.0.0.0", (50100, 50101, 50102))
    assert listening_beside("10.0.0.5", "10.0.0.5", chosen) == wanted


@pytest.mark.parametrize("text", ["", "x", "70000", "5-3", "1-", "0-10", "-1"])
def test_ports_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(InvalidOptionError, match="50100-50200"):
        Configuration.from_dict({"jobmanager.rpc.port": text}).get(JOBMANAGER_PORT)


# TLS ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("security.ssl.enabled", r"security\.ssl\.internal\.enabled' and 'security\.ssl\.rest\.enabled"),
        ("security.ssl.rest.keystore", r"PEM.*security\.ssl\.rest\.cert-file"),
        ("security.ssl.algorithms", "TLS 1.2 and newer"),
    ],
)
def test_options_of_flink_that_mean_something_else_are_refused_with_what_there_is_instead(
    key: str, words: str
) -> None:
    with pytest.raises(InvalidOptionError, match=words):
        checked(Configuration.from_dict({key: "something"}))


def test_rest_without_a_certificate_does_not_start_a_job() -> None:
    env = simulated_environment(configuration=Configuration.from_dict({"security.ssl.rest.enabled": "true"}))
    env.from_collection([1]).print()
    with pytest.raises(InvalidOptionError, match=r"security\.ssl\.rest\.cert-file"):
        env.execute()
