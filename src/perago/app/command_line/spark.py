"""`perago spark jars`: fetch what Spark needs to open lakeFS, once."""

from pathlib import Path
from typing import Annotated

import typer

from perago.app.command_line.reporting import JsonOption, reports_errors_by_class, say, say_json

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Fetch the jars that Spark tasks need.",
)


@app.callback()
def spark() -> None:
    """Fetch the jars that Spark tasks need."""


@app.command("jars")
@reports_errors_by_class
def jars(
    *,
    ivy_settings: Annotated[
        Path | None,
        typer.Option("--ivy-settings", metavar="FILE", help="Ivy settings that name a mirror."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Fetch the jars of this pyspark into the user's cache, and print them."""
    from perago.app.spark_parts import fetch_spark_jars  # noqa: PLC0415  # heavy, and needed late

    found = fetch_spark_jars(ivy_settings)
    if as_json:
        say_json("spark-jars/1", {"jars": [str(path) for path in found]})
        return
    for path in found:
        say(str(path))
