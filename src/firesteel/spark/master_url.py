"""Where a job is to run, as ``-m`` or the option say it, checked before anything is started.

Spark takes long to say what is wrong with the URL of its master, and says it in terms of its own classes: it starts a JVM
first, and tries a master that does not answer for a minute. Here the form of the URL is checked, then whether somebody
listens there, and a mistake costs a second or a few.
"""

from __future__ import annotations

import difflib
import os
import re
import socket
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from firesteel.common._override import override
from firesteel.common.configuration import Configuration
from firesteel.common.errors import InvalidOptionError, JobCancelledError, SetupError
from firesteel.common.options import SPARK_MASTER

__all__ = ["EMBEDDED", "Address", "check_environment", "check_form", "is_local", "reach", "threads_of"]

#: Stands for a Spark inside the program, with as many slots as its jobs need.
EMBEDDED = "embedded"

#: How long a master may take to be found and to take a connection: it is on the same network.
REACH_SECONDS = 5.0
_LOOK_SECONDS = 0.05

_USUAL_PORT = 7077
#: Where a standalone cluster usually has its web pages, its REST server and the pages of an application.
_PORTS_OF_PAGES = {
    8080: "the web page of a master",
    8081: "the web page of a worker, or of Flink",
    6066: "the REST server of a master",
    4040: "the web page of an application",
}
_SCHEMES = ("spark", "k8s", "local", "yarn", EMBEDDED)
_POSSIBLE = (
    f"spark://host:{_USUAL_PORT}, yarn, k8s://https://host:port, local[n], "
    f"or nothing at all ({EMBEDDED!r}): a Spark inside the program, with as many slots as its jobs need"
)
_IMAGE = "spark.kubernetes.container.image"
_IMAGES = (_IMAGE, "spark.kubernetes.executor.container.image", "spark.kubernetes.executor.podTemplateFile")


@dataclass(frozen=True, slots=True)
class Address:
    """Where one master of a standalone cluster listens."""

    host: str
    port: int

    @override
    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def is_local(master: str) -> bool:
    """Whether the tasks of such a Spark run in processes of this machine, below this one.

    >>> [is_local(master) for master in ("local", "local[4]", "local[*, 2]", "local-cluster[1,1,1024]", "yarn")]
    [True, True, True, False, False]
    """
    return re.fullmatch(r"local(\[.*\])?", master) is not None


def threads_of(master: str) -> int | None:
    """How many slots a ``local`` master has; None when Spark counts them itself, and for clusters.

    >>> [threads_of(master) for master in ("local", "local[4]", "local[3, 2]", "local[*]", "spark://host:7077")]
    [1, 4, 3, None, None]
    """
    if master == "local":
        return 1
    match = re.match(r"local\[\s*([0-9]+)", master)
    return None if match is None else int(match[1])


# The form -----------------------------------------------------------------------------------------------


def check_form(master: str) -> list[Address]:
    """Refuse what no Spark understands; returns where the masters of a standalone cluster are.

    >>> check_form("spark://one:7077,[::1]:7078")
    [Address(host='one', port=7077), Address(host='::1', port=7078)]
    """
    if master in (EMBEDDED, "yarn"):
        return []
    if master.startswith("spark://"):
        return [_address(master, text) for text in master.removeprefix("spark://").split(",")]
    if master.startswith("k8s://"):
        _check_kubernetes(master)
        return []
    if master.startswith("local"):
        _check_local(master)
        return []
    raise _wrong(master, _advice(master))


def _address(master: str, text: str) -> Address:
    match = re.fullmatch(
        r"(?P<host>\[[0-9A-Fa-f:.%]+\]|[^\[\]:/@\s]*)(?::(?P<port>[^:/@\s]*))?(?P<rest>.*)", text
    )
    host = "" if match is None else match["host"].strip("[]")
    if match is None or not host:
        raise _wrong(master, f"spark:// wants host and port of the master, as in spark://host:{_USUAL_PORT}")
    port, rest = match["port"], match["rest"]
    if rest not in ("", "/"):
        raise _wrong(
            master,
            f"behind the port nothing may follow, and here is {rest!r}: spark://{host}:{port or _USUAL_PORT}",
        )
    if not port:
        raise _wrong(
            master,
            f"it lacks the port of the master, usually {_USUAL_PORT}: spark://{text.rstrip(':/')}:{_USUAL_PORT}",
        )
    if not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise _wrong(
            master,
            f"a port is a number from 1 to 65535, got {port!r}; that of a master is usually {_USUAL_PORT}",
        )
    if rest:
        raise _wrong(master, f"Spark wants it without the slash at the end: {master.rstrip('/')}")
    return Address(host, int(port))


def _check_kubernetes(master: str) -> None:
    rest = master.removeprefix("k8s://")
    address = rest.partition("://")[2] if "://" in rest else rest
    scheme = rest.partition("://")[0] if "://" in rest else "https"
    if scheme not in ("https", "http") or not re.fullmatch(r"[^\s/@]+(/\S*)?", address):
        raise _wrong(
            master,
            "k8s:// wants the address of the cluster's API server, which 'kubectl cluster-info' shows: k8s://https://host:port",
        )


def _check_local(master: str) -> None:
    if master == "local" or re.fullmatch(r"local\[\s*(\*|0*[1-9][0-9]*)\s*(,\s*0*[1-9][0-9]*\s*)?\]", master):
        return
    if re.fullmatch(r"local-cluster\[\s*[0-9]+\s*,\s*[0-9]+\s*,\s*[0-9]+\s*\]", master):
        return
    if "://" in master or re.fullmatch(r"localhost(:.*)?", master):
        raise _wrong(master, _advice(master))
    raise _wrong(
        master,
        "a local Spark is local[n] with n slots, at least one, one for each task of the job, or local[*] with one per core",
    )


def _advice(master: str) -> str:
    """What somebody who wrote this may have meant."""
    scheme, colon, rest = master.partition("://")
    if not master.strip():
        return f"it is empty; possible are {_POSSIBLE}"
    if master.startswith("yarn"):
        return "Spark knows one way to run on YARN: yarn"
    if scheme == "mesos":
        return f"Spark 4 does not run on Mesos any more; possible are {_POSSIBLE}"
    if scheme in ("http", "https"):
        host = re.split("[:/]", rest)[0]
        return f"that is the address of a web page, which shows the URL of its master at the top: usually spark://{host}:{_USUAL_PORT}"
    if not colon and (match := re.fullmatch(r"([\w.-]+|\[[0-9A-Fa-f:.]+\]):(\d+)", master)):
        port = int(match[2])
        hint = f" ({port} is usually {_PORTS_OF_PAGES[port]})" if port in _PORTS_OF_PAGES else ""
        return f"the master of a Spark cluster is spark://{match[1]}:{_USUAL_PORT if hint else port}{hint}; possible are {_POSSIBLE}"
    if close := difflib.get_close_matches(scheme.lower(), _SCHEMES, 1, 0.7):
        return f"did you mean {close[0]}{colon}{rest}? Possible are {_POSSIBLE}"
    return f"possible are {_POSSIBLE}"


def _wrong(master: str, advice: str) -> InvalidOptionError:
    return InvalidOptionError(
        f"option '{SPARK_MASTER.key}' (-m): no Spark master has the URL {master!r}; {advice}"
    )


# What has to be there -----------------------------------------------------------------------------------


def check_environment(master: str, configuration: Configuration, environ: Mapping[str, str]) -> None:
    """Refuse a cluster whose description is missing on this machine."""
    if master == "yarn":
        _check_hadoop(environ)
    given = configuration.to_dict()
    # Files of Spark's own settings may say the rest.
    if (
        master.startswith("k8s://")
        and not any(key in given for key in _IMAGES)
        and not _has_defaults(environ)
    ):
        raise SetupError(
            f"{master} starts executors in containers, and nobody has said from which image: -D {_IMAGE}=NAME, an image "
            "with Spark, this version of Python, and the packages that tasks need"
        )


def _check_hadoop(environ: Mapping[str, str]) -> None:
    variables = ("HADOOP_CONF_DIR", "YARN_CONF_DIR")
    directories = {name: environ[name] for name in variables if environ.get(name)}
    wanted = "the directory with the core-site.xml and yarn-site.xml of the cluster"
    if not directories:
        raise SetupError(f"-m yarn: nobody has said where the cluster is; set HADOOP_CONF_DIR to {wanted}")
    if not any((Path(directory) / "yarn-site.xml").is_file() for directory in directories.values()):
        shown = ", ".join(f"{name}={directory}" for name, directory in directories.items())
        raise SetupError(f"-m yarn: there is no yarn-site.xml in {shown}; set HADOOP_CONF_DIR to {wanted}")


def _has_defaults(environ: Mapping[str, str]) -> bool:
    homes = [
        environ.get("SPARK_CONF_DIR"),
        environ.get("SPARK_HOME") and os.path.join(environ["SPARK_HOME"], "conf"),
    ]
    return any(home and os.path.isfile(os.path.join(home, "spark-defaults.conf")) for home in homes)


# Whether it is there ------------------------------------------------------------------------------------


def reach(
    master: str,
    addresses: Iterable[Address],
    is_wanted: Callable[[], bool] = lambda: True,
    seconds: float = REACH_SECONDS,
) -> None:
    """Make sure that one of the masters takes connections; raises what is wrong with each, after ``seconds`` at most."""
    tries = [_Try(address, seconds) for address in addresses]
    deadline = time.monotonic() + seconds
    while not any(attempt.succeeded for attempt in tries):
        if not is_wanted():
            raise JobCancelledError(f"the job was ended while it looked for the Spark master {master}")
        if all(attempt.problem for attempt in tries) or time.monotonic() >= deadline:
            problems = "; ".join(attempt.problem or f"{attempt.address} does not answer" for attempt in tries)
            raise SetupError(
                f"there is no Spark master at {master}: {problems}; is it running, and is this the URL that its web page "
                "and its log show?"
            )
        time.sleep(_LOOK_SECONDS)


class _Try:
    """A connection, tried in a thread of its own: looking up a name cannot be interrupted."""

    def __init__(self, address: Address, seconds: float) -> None:
        self.address = address
        self.succeeded = False
        self.problem = ""
        self._seconds = seconds
        threading.Thread(target=self._run, name="firesteel-reach-master", daemon=True).start()

    def _run(self) -> None:
        try:
            socket.create_connection((self.address.host, self.address.port), self._seconds).close()
            self.succeeded = True
        except socket.gaierror:
            self.problem = f"no machine of the name {self.address.host!r} is known here"
        except TimeoutError:
            self.problem = f"{self.address} does not answer"
        except OSError as error:
            port = self.address.port
            hint = f" ({port} is usually {_PORTS_OF_PAGES[port]})" if port in _PORTS_OF_PAGES else ""
            self.problem = f"nobody listens at {self.address}: {error.strerror or error}{hint}"
