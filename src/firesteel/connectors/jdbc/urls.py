"""From a URL to a database: JDBC's form and that of the drivers themselves."""

from __future__ import annotations

from urllib.parse import parse_qsl, unquote, urlsplit

from firesteel.common.errors import ProgramError
from firesteel.connectors.jdbc.database import Database
from firesteel.connectors.jdbc.options import JdbcConnectionOptions
from firesteel.connectors.jdbc.sqlite import SqliteDatabase

__all__ = ["database_of", "postgres_parameters"]

_FORMS = "'jdbc:postgresql://host:port/database', 'postgresql://...', 'jdbc:sqlite:/path' or 'sqlite:///path'"

#: What pgjdbc calls otherwise than libpq; the rest is passed on.
_JDBC_NAMES = {
    "user": "user",
    "password": "password",
    "ApplicationName": "application_name",
    "currentSchema": "schema",
}


def database_of(options: JdbcConnectionOptions) -> Database:
    """The database that the options mean."""
    if not isinstance(options, JdbcConnectionOptions):
        raise ProgramError(
            f"the connection of a database is described by JdbcConnectionOptions, got {options!r}"
        )
    url = options.url.removeprefix("jdbc:")
    scheme = url.partition(":")[0].lower()
    match scheme:
        case "sqlite":
            return SqliteDatabase(_sqlite_path(url, options.url))
        case "postgresql" | "postgres":
            from firesteel.connectors.jdbc.postgresql import PostgresDatabase  # psycopg may be missing

            return PostgresDatabase(postgres_parameters(options))
    if scheme in ("mysql", "mariadb", "oracle", "sqlserver", "db2", "derby", "h2"):
        raise ProgramError(f"databases of the kind {scheme!r} cannot be reached yet; there are {_FORMS}")
    raise ProgramError(f"{options.url!r} is no URL of a database; there are {_FORMS}")


def _sqlite_path(url: str, original: str) -> str:
    path = url.partition(":")[2]
    path = path[3:] if path.startswith("///") else path
    if url.partition(":")[2].startswith("///") and not path.startswith("/"):
        path = "/" + path
    if not path or path.startswith((":memory:", "//")):
        raise ProgramError(
            f"{original!r} names no file: tasks run in processes of their own and can share only a file, as in "
            "'jdbc:sqlite:/data/shop.db'"
        )
    return path


def postgres_parameters(options: JdbcConnectionOptions) -> dict[str, str]:
    """Libpq's parameters, without empty ones; user and password of the options win over those of the URL."""
    parts = urlsplit(options.url.removeprefix("jdbc:"))
    hosts, ports = _hosts(parts.netloc.rpartition("@")[2], options.url)
    parameters = {"host": hosts, "port": ports, "dbname": unquote(parts.path.lstrip("/"))}
    if parts.username:
        parameters["user"] = unquote(parts.username)
    if parts.password:
        parameters["password"] = unquote(parts.password)
    for key, value in parse_qsl(parts.query):
        name = _JDBC_NAMES.get(key, key)
        if name == "schema":
            parameters["options"] = f"-c search_path={value}"
        elif name == "ssl":
            parameters["sslmode"] = "verify-full" if value == "true" else "disable"
        else:
            parameters[name] = value
    if options.user_name is not None:
        parameters["user"] = options.user_name
    if options.password is not None:
        parameters["password"] = options.password
    parameters.setdefault("connect_timeout", str(max(2, round(options.connect_timeout_seconds))))
    parameters.setdefault("application_name", "firesteel")
    return {key: value for key, value in parameters.items() if value}


def _hosts(place: str, url: str) -> tuple[str, str]:
    """Several hosts, with commas, are tried in order."""
    hosts, ports = [], []
    for each in (place or "localhost").split(","):
        host, port = (each, "") if each.endswith("]") else _with_port(each)
        if port and not port.isdigit():
            raise ProgramError(f"{url!r}: the port must be a number, got {port!r}")
        hosts.append(host.strip("[]") or "localhost")
        ports.append(port or "5432")
    return ",".join(hosts), ",".join(ports)


def _with_port(text: str) -> tuple[str, str]:
    host, colon, port = text.rpartition(":")
    return (host, port) if colon else (text, "")
