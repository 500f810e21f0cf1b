"""`perago config`: every setting with its value and, when asked, where the value came from.

Secrets are masked. Reads settings; asks no service.
"""

from typing import Annotated

import typer

from perago.app.command_line.reporting import (
    JsonOption,
    reports_errors_by_class,
    say,
    say_json,
)
from perago.app.settings.layered_settings import ShownSetting
from perago.app.settings.settings import load_settings

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
    rows = list(load_settings().shown())
    if as_json:
        settings = {
            row.variable.name: {
                "value": row.text,
                "origin": row.origin,
                "about": row.variable.about,
            }
            for row in rows
        }
        say_json("config/1", {"settings": settings})
        return
    for row in rows:
        say(_line(row, with_origin=origin))


def _line(row: ShownSetting, *, with_origin: bool) -> str:
    line = f"{row.variable.name}={row.text}"
    return f"{line}  ({row.origin})" if with_origin else line
