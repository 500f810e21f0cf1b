"""`perago report publications REPO@BRANCH`: a Spark job over the history of a branch."""

import asyncio

import typer

from perago.app.command_line.commit_address import parse_address
from perago.app.command_line.reporting import JsonOption, reports_errors_by_class, say, say_json
from perago.app.command_line.verify import commit_of
from perago.app.settings.server_connections import connections_of
from perago.app.settings.settings import load_settings

HEADINGS = ("task", "day", "policy", "publications", "retries", "adoptions", "replacements")

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Count publications of a branch, on Spark.",
)


@app.callback()
def report() -> None:
    """Count publications of a branch."""


@app.command("publications")
@reports_errors_by_class
def publications(
    address: str = typer.Argument(metavar="REPO@BRANCH", help="Branch, or any reference."),
    *,
    as_json: JsonOption = False,
) -> None:
    """Count publications, retries, adoptions and replacements per task and day, on Spark."""
    from perago.app.spark_parts import job_target, spark_configuration  # noqa: PLC0415 - heavy
    from perago.app.spark_parts import publications as count  # noqa: PLC0415 - heavy

    settings = load_settings()
    wanted = parse_address(address)
    commit = asyncio.run(commit_of(settings, wanted))
    target = job_target(wanted.repository, commit, "/")
    found = count(spark_configuration(settings), connections_of(settings).lakefs, target)
    if as_json:
        rows = [dict(zip(HEADINGS, row, strict=True)) for row in found.rows]
        say_json("publications/1", {"commit": commit, "commits": found.commits, "rows": rows})
        return
    say("\t".join(HEADINGS))
    for row in found.rows:
        say("\t".join(map(str, row)))
