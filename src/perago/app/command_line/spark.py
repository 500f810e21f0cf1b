"""`perago verify`, `perago report` and `perago spark`: jobs over a repository on Spark.

`verify REPO@REF` reads every object and compares checksums, `report publications` counts what was
published, `spark jars` fetches what Spark needs. pyspark is imported only when one of them runs.
"""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from perago.app.command_line import reporting
from perago.app.command_line.services import ask
from perago.app.settings.settings import Settings, load_settings
from perago.domain.lakefs import CommitId, RepositoryId

DAMAGED = 1  # damage was found; an error before the answer has a finer code (`reporting`)


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
    as_json: reporting.JsonOption = False,
) -> None:
    """Read every object of a commit, compare size and checksum, and report damage. Needs Spark."""
    from perago.app import pipeline_parts  # noqa: PLC0415 - heavy
    from perago.app.container import open_lakefs  # noqa: PLC0415 - heavy

    pipeline_parts.require_spark()
    settings = load_settings()
    repository, commit = _resolved(settings, address)
    destination = report or f"perago-verify-{repository}-{commit[:12]}"
    if "://" not in destination:
        destination = f"file://{Path(destination).absolute()}"
    found = pipeline_parts.verify(settings, open_lakefs, repository, commit, prefix, destination)
    total = (
        f"{found.objects} objects, {found.bytes} bytes, {found.damaged} damaged, "
        f"{found.size_only} compared by size only; report: {found.report}"
    )
    document = {"commit": commit, **asdict(found)}
    reporting.say_answer("verify/1", document, [*found.shown, total], as_json=as_json)
    if found.damaged:
        raise typer.Exit(DAMAGED)


def _resolved(settings: Settings, address: str) -> tuple[RepositoryId, CommitId]:
    """The repository, and the commit that its reference names now."""
    repository, ref = parse_address(address)
    record = ask(lambda services: services.lakefs().commits.read(repository, ref), settings)
    return repository, record.commit


def parse_address(text: str) -> tuple[RepositoryId, str]:
    """The repository, and the commit, branch or tag in it: split at the one `@`."""
    repository, _, ref = text.partition("@")
    if not repository or not ref or "@" in ref:
        raise reporting.CommandUsageError(f"expected REPO@REF, found {text!r}")
    return RepositoryId(repository), ref


HEADINGS = ("task", "day", "policy", "publications", "retries", "adoptions", "replacements")

report_group = reporting.CommandGroup("Count publications of a branch. Needs Spark.")


@report_group.subcommand("publications", short_help="Count publications per task and day (Spark).")
def publications(
    address: str = typer.Argument(metavar="REPO@BRANCH", help="Branch, or any reference."),
    *,
    as_json: reporting.JsonOption = False,
) -> None:
    """Count publications, retries, adoptions and replacements per task and day. Needs Spark."""
    from perago.app import pipeline_parts  # noqa: PLC0415 - heavy
    from perago.app.container import open_lakefs  # noqa: PLC0415 - heavy

    pipeline_parts.require_spark()
    settings = load_settings()
    repository, commit = _resolved(settings, address)
    found = pipeline_parts.publications(settings, open_lakefs, repository, commit)
    rows = [dict(zip(HEADINGS, row, strict=True)) for row in found.rows]
    document = {"commit": commit, "commits": found.commits, "rows": rows}
    lines = ("\t".join(map(str, row)) for row in (HEADINGS, *found.rows))
    reporting.say_answer("publications/1", document, lines, as_json=as_json)


spark_group = reporting.CommandGroup("Fetch the jars that Spark tasks need.")


@spark_group.subcommand("jars", short_help="Fetch the jars and print their paths.")
def jars(
    *,
    ivy_settings: Annotated[
        Path | None,
        typer.Option(
            "--ivy-settings", metavar="FILE", help="File with the Ivy settings of a mirror."
        ),
    ] = None,
    as_json: reporting.JsonOption = False,
) -> None:
    """Fetch the jars for this pyspark into the user's cache, and print their paths."""
    from perago.app import pipeline_parts  # noqa: PLC0415  # heavy, and needed late

    found = list(map(str, pipeline_parts.fetch_spark_jars(ivy_settings)))
    reporting.say_answer("spark-jars/1", {"jars": found}, found, as_json=as_json)
