"""The files of deploy/: each is what its kind has to be, and they agree with each other and with the options there are."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from packaging.requirements import Requirement

from firesteel import __version__
from firesteel.datastream import StreamExecutionEnvironment
from firesteel.datastream._configuration_file import read_options
from firesteel.rest.client import RequestRefusedError, RestClient
from firesteel.rest.client_settings import read_access
from firesteel.rest.service import RestService
from firesteel.rest.settings import read_rest_settings

ROOT = Path(__file__).parents[3]
DEPLOY = ROOT / "deploy"
KUBERNETES = DEPLOY / "kubernetes"
MANIFESTS = sorted(KUBERNETES.glob("*.yaml"))
#: No manifests: what kustomize reads, and what drivers do.
OTHERS = {"kustomization.yaml", "config.yaml"}
OPTIONS = sorted([*DEPLOY.rglob("config.yaml"), *(DEPLOY / "config").glob("*.yaml")])
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
#: Options that name files of the REST interface: its certificate, its key, its tokens.
REST_FILES = ("security.ssl.rest.cert-file", "security.ssl.rest.key-file", "firesteel.rest.tokens-file")


def manifests(*names: str) -> Iterator[dict[str, Any]]:
    for path in MANIFESTS:
        if path.name not in OTHERS and (not names or path.name in names):
            yield from yaml.safe_load_all(path.read_text())


def of_kind(kind: str) -> list[dict[str, Any]]:
    return [each for each in manifests() if each["kind"] == kind]


def names_of(kind: str) -> set[str]:
    return {each["metadata"]["name"] for each in of_kind(kind)}


def pods() -> list[dict[str, Any]]:
    """What is said of pods: those of deployments, and the template for executors."""
    return [each["spec"]["template"] for each in of_kind("Deployment")] + of_kind("Pod")


# Kubernetes ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["1.31", kubernetes_validate.latest_version()])
def test_manifests_are_valid(version: str) -> None:
    found = list(manifests())
    assert {"Deployment", "Service", "PersistentVolumeClaim", "NetworkPolicy", "Role"} <= {
        m["kind"] for m in found
    }
    for manifest in found:
        kubernetes_validate.validate(manifest, version, strict=True)


def test_validation_finds_a_misspelt_field() -> None:
    broken = next(iter(manifests("session.yaml")))
    broken["spec"]["selektor"] = {}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(broken, "1.31", strict=True)


def test_kustomization_names_every_manifest() -> None:
    kustomization = yaml.safe_load((KUBERNETES / "kustomization.yaml").read_text())
    generated = {name for each in kustomization["configMapGenerator"] for name in each["files"]}
    named = {*kustomization["resources"], *generated}
    # A job of one's own is applied by itself, and the template for drivers read by spark-submit.
    by_itself = {"kustomization.yaml", "application.yaml", "driver-pod.yaml"}
    assert named == {path.name for path in MANIFESTS} - by_itself


def test_pods_refer_to_what_is_there() -> None:
    claims, accounts = names_of("PersistentVolumeClaim"), names_of("ServiceAccount")
    options = read_options(KUBERNETES / "config.yaml").to_dict()
    assert {value for key, value in options.items() if key.endswith("serviceAccountName")} <= accounts
    for pod in pods():
        spec = pod["spec"]
        assert spec.get("serviceAccountName", "firesteel-executor") in accounts
        volumes = {volume["name"]: volume for volume in spec["volumes"]}
        for container in spec["containers"]:
            assert {mount["name"] for mount in container["volumeMounts"]} == set(volumes)
        for volume in volumes.values():
            if "persistentVolumeClaim" in volume:
                assert volume["persistentVolumeClaim"]["claimName"] in claims


def test_drivers_and_executors_see_checkpoints_under_one_path() -> None:
    for pod in pods():
        for container in pod["spec"]["containers"]:
            mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
            assert mounts["checkpoints"] == "/checkpoints"
    options = read_options(KUBERNETES / "config.yaml").to_dict()
    assert options["execution.checkpointing.dir"].startswith("/checkpoints")


def test_services_and_walls_find_their_pods() -> None:
    labels = [each["spec"]["template"]["metadata"]["labels"] for each in of_kind("Deployment")]
    options = read_options(KUBERNETES / "config.yaml").to_dict()
    prefix = "spark.kubernetes.executor.label."
    executors = {key.removeprefix(prefix): value for key, value in options.items() if key.startswith(prefix)}
    for service in of_kind("Service"):
        wanted = service["spec"]["selector"].items()
        assert sum(wanted <= of_pod.items() for of_pod in labels) == 1
        assert not wanted <= executors.items()
    walls, rest = (each["spec"]["podSelector"]["matchLabels"].items() for each in of_kind("NetworkPolicy"))
    assert all(walls <= of_pod.items() and rest <= of_pod.items() for of_pod in labels)
    assert walls <= executors.items(), "Spark makes executors with this label"
    assert not rest <= executors.items(), "executors have no REST interface"


def test_no_container_has_rights_that_it_does_not_need() -> None:
    for pod in pods():
        assert pod["spec"]["securityContext"]["runAsNonRoot"] is True
        for container in pod["spec"]["containers"]:
            context = container["securityContext"]
            assert context["allowPrivilegeEscalation"] is False
            assert context["capabilities"] == {"drop": ["ALL"]}
    text = (DEPLOY / "docker" / "Dockerfile").read_text()
    user = re.search(r"^USER (\d+):\d+$", text, re.MULTILINE)
    assert user is not None
    assert {pod["spec"]["securityContext"]["runAsUser"] for pod in pods()} == {int(user[1])}


def test_certificate_and_tokens_come_from_a_secret_that_only_drivers_see() -> None:
    options = read_options(KUBERNETES / "config.yaml").to_dict()
    files = [Path(options[key]) for key in REST_FILES]
    for pod in pods():
        mounts = {mount["mountPath"] for each in pod["spec"]["containers"] for mount in each["volumeMounts"]}
        secrets = [volume["secret"] for volume in pod["spec"]["volumes"] if "secret" in volume]
        if "serviceAccountName" not in pod["spec"]:  # executors run everybody's code
            assert not secrets
            continue
        assert {str(file.parent) for file in files} <= mounts
        # A mode beyond this is refused: see firesteel.common._private_files.
        assert secrets == [{"secretName": "firesteel-rest", "defaultMode": 0o440}]
    page = (ROOT / "docs" / "deployment_kubernetes.md").read_text()
    command = re.search(r"create secret generic firesteel-rest((?:\\\n|.)*)", page)
    assert command is not None
    named = {Path(name).name for name in re.findall(r"--from-file=(\S+)", command[1])}
    assert named == {file.name for file in files}


# Options ------------------------------------------------------------------------------------------------


def test_no_sample_is_open_to_everybody() -> None:
    remote = []
    for path in OPTIONS:
        options = read_options(path).to_dict()
        assert "firesteel.rest.allow-remote" not in options
        if "rest.bind-address" in options:
            remote.append(path.relative_to(DEPLOY).as_posix())
            assert options["security.ssl.rest.enabled"] == "true"
            assert options.keys() >= set(REST_FILES)
    assert remote == ["config/rest.yaml", "docker/config.yaml", "kubernetes/config.yaml"]


@pytest.mark.parametrize("path", OPTIONS, ids=lambda path: str(path.relative_to(DEPLOY)))
def test_options_are_known_and_understood(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    configuration = read_options(path)
    assert configuration.to_dict()
    StreamExecutionEnvironment.get_execution_environment(configuration)
    assert not caplog.messages, "an option has no effect, or is misspelt"


def test_variables_of_pods_are_options_too(tmp_path: Path) -> None:
    for pod in pods():
        for container in pod["spec"]["containers"]:
            for variable in container.get("env", ()):
                if variable["name"] == "FIRESTEEL_PROPERTIES":
                    (tmp_path / "config.yaml").write_text(variable["value"])
                    configuration = read_options(tmp_path / "config.yaml")
                    StreamExecutionEnvironment.get_execution_environment(configuration)
                    both = (
                        read_options(KUBERNETES / "config.yaml").to_dict().keys()
                        & configuration.to_dict().keys()
                    )
                    assert not both, "a file with a key twice is refused"


# Docker -------------------------------------------------------------------------------------------------


def lint(dockerfile: Path) -> str:
    hadolint = Path(sys.executable).with_name("hadolint")
    done = subprocess.run([hadolint, "--no-color", dockerfile], capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def test_dockerfile_is_clean() -> None:
    assert lint(DEPLOY / "docker" / "Dockerfile") == ""


def test_linter_finds_a_mistake(tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text("FROM python\nRUNN true\n")
    assert "Dockerfile:2:4" in lint(tmp_path / "Dockerfile")


def test_dockerfile_copies_what_is_sent_to_it() -> None:
    text = (DEPLOY / "docker" / "Dockerfile").read_text()
    sent = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    copied = set()
    for words in re.findall(r"^COPY (?!--from)(?:--\S+ )*(.*)$", text, re.MULTILINE):
        copied |= set(words.split()[:-1])
    assert copied == sent
    assert all((ROOT / name).exists() for name in copied)
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    default = re.search(r"^ARG EXTRAS=(.*)$", text, re.MULTILINE)
    assert default is not None
    assert set(default[1].split(",")) <= extras.keys()


def test_versions_of_extras_are_those_of_the_lock_file() -> None:
    text = (DEPLOY / "docker" / "Dockerfile").read_text()
    command = re.search(r"sed (.*) > constraints.txt", text)
    assert command is not None
    done = subprocess.run(
        ["bash", "-c", f"sed {command[1]}"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    constraints = [Requirement(line) for line in done.stdout.splitlines() if line]
    assert {"pyspark", "prometheus-client"} <= {each.name for each in constraints}
    assert all(str(each.specifier).startswith("==") for each in constraints)


def test_everything_names_the_same_image() -> None:
    named = set()
    for path in [
        *DEPLOY.rglob("*.yaml"),
        *(DEPLOY / "docker").glob("*.py"),
        *(ROOT / "docs").glob("deployment*.md"),
    ]:
        named |= set(re.findall(r"\bfiresteel:(\d[\w.]*)", path.read_text()))
    assert named == {__version__}


def test_compose_file_is_valid() -> None:
    check = Path(sys.executable).with_name("check-jsonschema")
    compose = DEPLOY / "docker" / "compose.yaml"
    words = [check, "--builtin-schema", "vendor.compose-spec", compose]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_compose_file_refers_to_what_is_there() -> None:
    compose = yaml.safe_load((DEPLOY / "docker" / "compose.yaml").read_text())
    for service in compose["services"].values():
        assert set(service["networks"]) <= compose["networks"].keys()
        assert set(service["secrets"]) <= compose["secrets"].keys()
        assert set(service.get("depends_on", ())) <= compose["services"].keys()
        for volume in service.get("volumes", ()):
            if isinstance(volume, str):
                assert volume.partition(":")[0] in compose["volumes"]
        assert service["read_only"]
        assert service["cap_drop"] == ["ALL"]
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ()))


def make_secrets(directory: Path) -> Path:
    """What make-secrets writes, where it is; who is not root has nobody whose files it could make root's."""
    for name in ("make-secrets", "config.yaml"):
        shutil.copy(DEPLOY / "docker" / name, directory / name)
    (directory / "sudo").write_text("#!/bin/sh\n")
    (directory / "sudo").chmod(0o755)
    program = Path(sys.executable).with_name("firesteel")
    environment = {**os.environ, "PATH": f"{directory}:{os.environ['PATH']}", "FIRESTEEL": str(program)}
    subprocess.run([directory / "make-secrets"], check=True, capture_output=True, env=environment)
    return directory / "secrets"


def test_secrets_are_made_once_and_fit_together(tmp_path: Path) -> None:
    first = {path: path.read_bytes() for path in make_secrets(tmp_path).rglob("*") if path.is_file()}
    secrets = make_secrets(tmp_path)
    assert first == {path: path.read_bytes() for path in secrets.rglob("*") if path.is_file()}
    spark = dict(line.split(" ", 1) for line in (secrets / "spark.conf").read_text().splitlines())
    options = read_options(secrets / "config.yaml").to_dict()
    assert spark.items() <= options.items()
    assert re.fullmatch("[0-9a-f]{64}", spark["spark.authenticate.secret"])
    assert options["firesteel.spark.master"] == "spark://master:7077"
    compose = yaml.safe_load((DEPLOY / "docker" / "compose.yaml").read_text())
    given = {name: DEPLOY / "docker" / each["file"] for name, each in compose["secrets"].items()}
    assert {path.relative_to(DEPLOY / "docker" / "secrets").as_posix() for path in given.values()} <= {
        path.relative_to(secrets).as_posix() for path in first
    }
    if os.geteuid() == 0:
        assert {(secrets / name).stat().st_mode & 0o777 for name in given} == {0o640}
        assert {(secrets / name).stat().st_gid for name in given} == {10001}


def test_secrets_let_in_the_client_and_nobody_else(tmp_path: Path) -> None:
    """As in the container, where the files are below /run/secrets: the service's checks of its files pass."""
    secrets = make_secrets(tmp_path)
    shown = Path("/run/secrets")
    text = (secrets / "config.yaml").read_text().replace(f"{shown}/", f"{secrets}/")
    (tmp_path / "seen.yaml").write_text(text)
    settings = read_rest_settings(read_options(tmp_path / "seen.yaml"))
    assert settings is not None
    assert settings.tokens_file == str(secrets / "tokens")
    service = yaml.safe_load((DEPLOY / "docker" / "compose.yaml").read_text())["services"]["service"]
    options = read_options(secrets / "config.yaml").to_dict()
    assert {Path(options[key]) for key in REST_FILES} <= {shown / name for name in service["secrets"]}
    access = read_access(read_options(secrets / "client" / "config.yaml"), {})
    rest = RestService(replace(settings, ports=(0,), bind_address="127.0.0.1", address="localhost"))
    try:
        with RestClient(rest.url, access) as client:
            assert client.get("/overview")["jobs-running"] == 0
        with (
            RestClient(rest.url, replace(access, token="")) as client,
            pytest.raises(RequestRefusedError) as refused,
        ):
            client.get("/overview")
        assert refused.value.status == 401
    finally:
        rest.close()


# systemd ------------------------------------------------------------------------------------------------


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed here")
def test_units_are_valid(tmp_path: Path) -> None:
    for unit in UNITS:  # what they start has to exist
        text = unit.read_text().replace("/opt/firesteel/bin", str(Path(sys.executable).parent))
        (tmp_path / unit.name.replace("@.", "@word-count.")).write_text(text)
    units = sorted(tmp_path.glob("*.service"))
    done = subprocess.run(["systemd-analyze", "verify", *units], capture_output=True, text=True, check=False)
    # It also looks at units of the machine that these refer to; those are not ours.
    ours = [line for line in done.stderr.splitlines() if any(unit.name in line for unit in units)]
    assert ours == []


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed here")
def test_verification_finds_a_misspelt_setting(tmp_path: Path) -> None:
    unit = tmp_path / "broken.service"
    unit.write_text("[Service]\nExecStart=/bin/true\nRestartt=always\n")
    done = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True, check=False)
    assert "Restartt" in done.stderr


def test_units_have_the_files_that_they_read() -> None:
    there = {path.name for path in (DEPLOY / "systemd").glob("*.env")} | {"%i.env"}
    for unit in UNITS:
        files = re.findall(r"^EnvironmentFile=(.*)$", unit.read_text(), re.MULTILINE)
        assert {Path(file).name for file in files} <= there
