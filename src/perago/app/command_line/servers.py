"""`perago servers`: a real lakeFS and a real Conductor on this machine, to try things out.

They are those that Perago's own tests run on, by the tool that starts them there. It fetches and
builds each once per user. What is stored in them goes when the command ends.
"""

import signal
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

import perago_servers
from perago.app.command_line.reporting import CommandGroup, JsonOption, note, say, say_answer
from perago.domain.errors import PeragoError
from perago_servers.__main__ import PROGRAMS
from perago_servers.cache import cache_root, is_made

NAMES = ("lakefs", "conductor")
_PRIVATE = 0o600  # the file has the key of the lakeFS


class LocalServerError(PeragoError, RuntimeError):
    """A server could not be fetched, built or started here, or it has ended."""

    code = "PRG-X005"


servers_group = CommandGroup("Run lakeFS and Conductor on this machine, to try things out.")


@servers_group.subcommand("up")
def up(
    *,
    env_file: Annotated[
        Path | None,
        typer.Option("--env-file", metavar="FILE", help="Also write the settings to this file."),
    ] = None,
) -> None:
    """Run both until Ctrl-C, and print their settings."""
    if env_file is not None:
        # After the start, a wrong path would have cost it, and left what the servers store.
        env_file.open("a").close()
    # A script starts this in the background, where a Ctrl-C is ignored: both signals end it.
    for ending in (signal.SIGINT, signal.SIGTERM):
        signal.signal(ending, signal.default_int_handler)
    note("starting lakeFS and Conductor: some ten seconds")
    try:
        with (
            server_errors(),
            perago_servers.lakefs_server() as lakefs,
            # Without these workers a JOIN waits for ever.
            perago_servers.conductor_server(profile="workers") as conductor,
        ):
            settings = {
                "PERAGO_LAKEFS": lakefs.endpoint,
                "PERAGO_CONDUCTOR": conductor.api_url,
                # lakectl reads the address by this name, and the key by the two below.
                "LAKECTL_SERVER_ENDPOINT_URL": lakefs.endpoint,
                "LAKECTL_CREDENTIALS_ACCESS_KEY_ID": lakefs.access_key_id,
                "LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY": lakefs.secret_access_key,
            }
            for name, value in settings.items():
                say(f"{name}={value}")
            if env_file is not None:
                write_settings(env_file, settings)
            note(f"lakeFS: pid {lakefs.pid}, log {lakefs.log}")
            note(f"Conductor: pid {conductor.pid}, log {conductor.log}")
            note("ready; Ctrl-C stops both and removes what they stored")
            perago_servers.wait_until_one_ends({"lakeFS": lakefs, "Conductor": conductor})
    except KeyboardInterrupt:
        return


def write_settings(env_file: Path, settings: Mapping[str, str]) -> None:
    """Write what a shell reads by `. FILE`, with lakectl on its path, and Perago as its `.env`."""
    lines = [f"export {name}={value}" for name, value in settings.items()]
    lines.append(f'export PATH="{_programs()}:$PATH"')
    env_file.touch(_PRIVATE)
    # Before the key is in it. `touch` gives no mode to a file that is there, such as an old `.env`.
    env_file.chmod(_PRIVATE)
    env_file.write_text("\n".join([*lines, ""]), encoding="utf-8")


def _programs() -> Path:
    """The directory of lakeFS's programs."""
    return cache_root() / PROGRAMS["lakefs"].key


@servers_group.subcommand("fetch")
def fetch(*, as_json: JsonOption = False) -> None:
    """Fetch and build both, once per user: six minutes."""
    with server_errors():
        found = {name: str(PROGRAMS[name].fetch()) for name in NAMES}
    lines = (f"{name}: {path}" for name, path in found.items())
    say_answer("servers/1", {"servers": found}, lines, as_json=as_json)


@servers_group.subcommand("status")
def status(*, as_json: JsonOption = False) -> None:
    """Show the versions, whether they are fetched, and where lakectl is."""
    keys = {name: PROGRAMS[name].key for name in NAMES}
    found = {name: key if is_made(key) else None for name, key in keys.items()}
    lakectl = str(_programs() / "lakectl")
    lines = (
        f"{name}: {made or f'{keys[name]}, not fetched yet: perago servers fetch'}"
        for name, made in found.items()
    )
    document = {"servers": found, "lakectl": lakectl}
    say_answer("servers-status/1", document, [*lines, f"lakectl: {lakectl}"], as_json=as_json)


@contextmanager
def server_errors() -> Generator[None]:
    """Give what the tool raises the code of this command; its message has the end of the log."""
    try:
        yield
    except (perago_servers.FetchError, perago_servers.ServerError) as error:
        raise LocalServerError(str(error)) from error
