"""`perago verify`, `perago report` and `perago spark`: jobs over a repository on Spark.

`verify REPO@REF` reads every object and compares checksums, `report publications` counts what was
published, `spark jars` fetches what Spark needs. pyspark is imported only when one of them runs.
"""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from perago.app.command_line.reporting import (
    CommitAddress,
    JsonOption,
    command_group,
    parse_address,
    reports_errors_by_class,
    say,
    say_json,
)
from perago.app.command_line.services import ask
from perago.app.settings.runtime_config import connections_of
from perago.app.settings.settings import Settings, load_settings
from perago.domain.logical_execution import CommitId

if TYPE_CHECKING:
    from perago.app.container import Container

DAMAGED = 1  # damage was found; an error before the answer has a finer code (`reporting`)


@reports_errors_by_class
def verify(
    address: Annotated[str, typer.Argument(metavar="REPO@REF", help="Commit, branch or tag.")],
    *,
    prefix: Annotated[
        str, typer.Option(metavar="PREFIX", help="Only objects in this folder.")
    ] = "/",
    report: Annotated[
        str | None,
        typer.Option(metavar="PATH", help="Path or URI to which Spark writes a Parquet report."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Read every object of a commit, compare size and checksum, and report damage. Needs Spark."""
    from perago.app import spark_parts  # noqa: PLC0415 - heavy

    spark_parts.require_spark()
    settings = load_settings()
    wanted = parse_address(address)
    commit = commit_of(settings, wanted)
    destination = report or f"perago-verify-{wanted.repository}-{commit[:12]}"
    if "://" not in destination:
        destination = f"file://{Path(destination).absolute()}"
    target = spark_parts.job_target(wanted.repository, commit, prefix)
    lakefs = connections_of(settings).lakefs
    spark = spark_parts.spark_configuration(settings)
    found = spark_parts.verify(spark, lakefs, target, destination)
    if as_json:
        say_json("verify/1", {"commit": commit, **asdict(found)})
    else:
        for line in found.shown:
            say(line)
        say(
            f"{found.objects} objects, {found.bytes} bytes, {found.damaged} damaged, "
            f"{found.size_only} compared by size only; report: {found.report}"
        )
    if found.damaged:
        raise typer.Exit(DAMAGED)


def commit_of(settings: Settings, address: CommitAddress) -> CommitId:
    """The commit that a reference names now."""

    async def read(services: "Container") -> CommitId:
        return (await services.lakefs().commits.read(address.repository, address.ref)).commit

    return ask(read, settings)


HEADINGS = ("task", "day", "policy", "publications", "retries", "adoptions", "replacements")

report_group = command_group("Count publications of a branch. Needs Spark.")


@report_group.callback()
def report() -> None:
    """Count publications of a branch."""


@report_group.command("publications", short_help="Count publications per task and day (Spark).")
@reports_errors_by_class
def publications(
    address: str = typer.Argument(metavar="REPO@BRANCH", help="Branch, or any reference."),
    *,
    as_json: JsonOption = False,
) -> None:
    """Count publications, retries, adoptions and replacements per task and day. Needs Spark."""
    from perago.app import spark_parts  # noqa: PLC0415 - heavy

    spark_parts.require_spark()
    settings = load_settings()
    wanted = parse_address(address)
    commit = commit_of(settings, wanted)
    target = spark_parts.job_target(wanted.repository, commit, "/")
    lakefs = connections_of(settings).lakefs
    found = spark_parts.publications(spark_parts.spark_configuration(settings), lakefs, target)
    if as_json:
        rows = [dict(zip(HEADINGS, row, strict=True)) for row in found.rows]
        say_json("publications/1", {"commit": commit, "commits": found.commits, "rows": rows})
        return
    say("\t".join(HEADINGS))
    for row in found.rows:
        say("\t".join(map(str, row)))


spark_group = command_group("Fetch the jars that Spark tasks need.")


@spark_group.callback()
def spark() -> None:
    """Fetch the jars that Spark tasks need."""


@spark_group.command("jars", short_help="Fetch the jars and print their paths.")
@reports_errors_by_class
def jars(
    *,
    ivy_settings: Annotated[
        Path | None,
        typer.Option(
            "--ivy-settings", metavar="FILE", help="File with the Ivy settings of a mirror."
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Fetch the jars for this pyspark into the user's cache, and print their paths."""
    from perago.app import spark_parts  # noqa: PLC0415  # heavy, and needed late

    found = spark_parts.fetch_spark_jars(ivy_settings)
    if as_json:
        say_json("spark-jars/1", {"jars": [str(path) for path in found]})
        return
    for path in found:
        say(str(path))
