"""``firesteel certificates``: makes an authority of one's own, a certificate, and the options that use them."""

from __future__ import annotations

import secrets
from importlib import resources
from pathlib import Path

import click

from firesteel.cli.help_texts import examples
from firesteel.cli.running_jobs import plain_errors
from firesteel.common import options
from firesteel.common._private_files import create_secret
from firesteel.common.config_options import ConfigOption
from firesteel.control.certificates import FILES, write_certificates
from firesteel.spark.tls import GUARD

_DAYS = 825
_CONFIGURATION = "config.yaml"


@click.command(
    short_help="Make certificates for TLS.",
    epilog=examples(
        ("firesteel certificates certs --host stream.example.org", "for clients that call this machine so"),
    ),
)
@click.argument("directory", metavar="DIRECTORY", type=click.Path(path_type=Path, file_okay=False))
@click.option(
    "--host", "hosts", multiple=True, metavar="NAME", help="Name or address of a machine; may be given again."
)
@click.option(
    "--days", type=click.IntRange(1, 36500), default=_DAYS, show_default=True, help="How long they are valid."
)
def certificates(directory: Path, hosts: tuple[str, ...], days: int) -> None:
    """Make a private authority, a certificate that serves servers and clients, and a configuration that uses them.

    All files are for their owner only. Machines that talk to each other need the same ones.
    """
    password = secrets.token_urlsafe(24)
    directory = directory.absolute()
    configuration = directory / _CONFIGURATION
    with plain_errors():
        write_certificates(directory, hosts, days, password)
        if configuration.exists():
            raise click.ClickException(
                f"{configuration} is there already and stays as it is; add the options to it yourself"
            )
        with create_secret(str(configuration)) as file:
            file.write(_options(directory, password).encode())
        with create_secret(str(directory / GUARD)) as file:
            file.write((resources.files("firesteel.spark") / "guard" / GUARD).read_bytes())
    others = {
        _CONFIGURATION: "options that use them: FIRESTEEL_CONF_DIR",
        GUARD: "has executors ask for certificates",
    }
    width = max(map(len, (*FILES, *others)))
    for name, purpose in {**FILES, **others}.items():
        click.echo(f"{directory / name!s:<{width + len(str(directory)) + 1}}  {purpose}")


def _options(directory: Path, password: str) -> str:
    """REST over TLS, for clients that have the certificate, too, and everything between machines encrypted."""

    def line(option: ConfigOption[str | None], value: object) -> str:
        return f"{option.key}: {value}\n"

    return (
        f"{options.SSL_REST.key}: true\n"
        + line(options.SSL_REST_CERT_FILE, directory / "cert.pem")
        + line(options.SSL_REST_KEY_FILE, directory / "key.pem")
        + line(options.SSL_REST_CA_FILE, directory / "ca.pem")
        + f"{options.SSL_REST_AUTHENTICATION.key}: true\n"
        + f"{options.SSL_INTERNAL.key}: true\n"
        + line(options.SSL_INTERNAL_KEYSTORE, directory / "keystore.p12")
        + line(options.SSL_INTERNAL_KEYSTORE_PASSWORD, password)
        + line(options.SSL_INTERNAL_TRUSTSTORE, directory / "truststore.p12")
        + line(options.SSL_INTERNAL_TRUSTSTORE_PASSWORD, password)
        + line(options.SSL_INTERNAL_CERT_FILE, directory / "cert.pem")
        + line(options.SSL_INTERNAL_KEY_FILE, directory / "key.pem")
        + line(options.SSL_INTERNAL_CA_FILE, directory / "ca.pem")
    )
