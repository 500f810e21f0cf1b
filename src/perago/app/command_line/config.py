"""`perago config` and `perago version`: what this installation is and knows.

`config` shows every setting, masked where it is secret, and where its value came from. It asks
lakeFS one thing: which route bytes take, where a setting leaves that open.
"""

import platform
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed_version
from typing import Annotated

import typer

from perago._version import __version__
from perago.app.command_line.reporting import CommandGroup, JsonOption, say, say_json
from perago.app.connections import connections_of
from perago.app.pipeline_parts import route_in_force
from perago.app.settings.settings import ShownSetting, load_settings, settings_as_found
from perago.domain.errors import RuntimeConfigError

app = CommandGroup("Show settings and where they come from.")


@app.subcommand("show")
def show(
    *,
    origin: Annotated[
        bool, typer.Option("--origin", help="Print where each value comes from.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Print every setting, with secrets masked."""
    try:
        settings = load_settings()
        rows = list(settings.shown())
        found = {row.name: row.origin for row in rows}
        route, decided_by = route_in_force(
            # Both are made, so that wrong settings of Conductor are refused here too.
            connections_of(settings).lakefs,
            f"PERAGO_TRANSFER_ROUTE, {found['PERAGO_TRANSFER_ROUTE']}",
        )
    except RuntimeConfigError:
        # Asked for by the remedies of wrong settings: where each comes from must be seen.
        if not as_json:
            _print(settings_as_found(), with_origin=origin)
        raise
    if as_json:
        values = {
            row.name: {"value": row.text, "origin": row.origin, "about": row.about} for row in rows
        }
        in_force = {"value": route, "origin": decided_by}
        say_json("config/1", {"settings": values, "transfer_route_in_force": in_force})
        return
    _print(rows, with_origin=origin)
    # A comment, for those who read the lines above as a file of settings.
    say(f"# transfer route in force: {route}" + (f"  ({decided_by})" if origin else ""))


def _print(rows: Iterable[ShownSetting], *, with_origin: bool) -> None:
    for row in rows:
        say(f"{row.name}={row.text}" + (f"  ({row.origin})" if with_origin else ""))


# What reports of problems depend on; the last two are extras and may be absent.
_PACKAGES = ("aiohttp", "pydantic", "pyspark", "opentelemetry-sdk")


def version(*, as_json: JsonOption = False) -> None:
    """Print the version."""
    if not as_json:
        say(__version__)
        return
    say_json(
        "version/1",
        {
            "version": __version__,
            "python": platform.python_version(),
            "platform": platform.platform(),
            "packages": {name: _version_of(name) for name in _PACKAGES},
        },
    )


def _version_of(package: str) -> str | None:
    try:
        return installed_version(package)
    except PackageNotFoundError:
        return None
