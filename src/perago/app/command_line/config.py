"""`perago config`: every setting with its value and, when asked, where the value came from.

Secrets are masked. Asks lakeFS one thing only: which route bytes take where a setting leaves it
open.
"""

from collections.abc import Iterable
from typing import Annotated

import typer

from perago.app.command_line.reporting import (
    JsonOption,
    reports_errors_by_class,
    say,
    say_json,
)
from perago.app.settings.layered_settings import ShownSetting
from perago.app.settings.server_connections import connections_of
from perago.app.settings.settings import load_settings, settings_as_found
from perago.app.transfer_parts import route_in_force
from perago.domain.authoring_errors import RuntimeConfigError

app = typer.Typer(
    help="Show settings and where they come from.",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    add_completion=False,
)


@app.callback()
def config() -> None:
    """Show settings and where they come from."""


@app.command("show")
@reports_errors_by_class
def show(
    *,
    origin: Annotated[
        bool, typer.Option("--origin", help="Say where each value was found.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Print every setting; secrets are masked."""
    try:
        settings = load_settings()
        rows = list(settings.shown())
        found = {row.variable.name: row.origin for row in rows}
        route, decided_by = route_in_force(
            connections_of(settings), f"PERAGO_TRANSFER_ROUTE, {found['PERAGO_TRANSFER_ROUTE']}"
        )
    except RuntimeConfigError:
        # Asked for by the remedy of a wrong setting: where it comes from must be seen.
        if not as_json:
            _print(settings_as_found(), with_origin=origin)
        raise
    if as_json:
        values = {
            row.variable.name: {
                "value": row.text,
                "origin": row.origin,
                "about": row.variable.about,
            }
            for row in rows
        }
        in_force = {"value": route, "origin": decided_by}
        say_json("config/1", {"settings": values, "transfer_route_in_force": in_force})
        return
    _print(rows, with_origin=origin)
    # A comment, for those who read the lines above as a file of settings.
    say(f"# transfer route in force: {route}" + (f"  ({decided_by})" if origin else ""))


def _print(rows: Iterable[ShownSetting], *, with_origin: bool) -> None:
    for row in rows:
        say(_line(row, with_origin=with_origin))


def _line(row: ShownSetting, *, with_origin: bool) -> str:
    line = f"{row.variable.name}={row.text}"
    return f"{line}  ({row.origin})" if with_origin else line
