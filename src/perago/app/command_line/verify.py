"""`perago verify REPO@REF`: a Spark job that reads every object and compares checksums."""

import asyncio
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from perago.app.command_line.commit_address import CommitAddress, parse_address
from perago.app.command_line.reporting import JsonOption, reports_errors_by_class, say, say_json
from perago.app.settings.server_connections import connections_of
from perago.app.settings.settings import Settings, load_settings
from perago.domain.references import CommitId

DAMAGED = 1


@reports_errors_by_class
def verify(
    address: Annotated[str, typer.Argument(metavar="REPO@REF", help="Commit, branch or tag.")],
    *,
    prefix: Annotated[
        str, typer.Option(metavar="PREFIX", help="Only objects of this folder.")
    ] = "/",
    report: Annotated[
        str | None,
        typer.Option(metavar="PATH", help="Where the Parquet report goes; a path or URI of Spark."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Read every object of a commit on Spark, recompute size and checksum, and report damage."""
    from perago.app.spark_parts import job_target, spark_configuration  # noqa: PLC0415 - heavy
    from perago.app.spark_parts import verify as verify_commit  # noqa: PLC0415 - heavy

    settings = load_settings()
    wanted = parse_address(address)
    commit = asyncio.run(commit_of(settings, wanted))
    place = report or f"perago-verify-{wanted.repository}-{commit[:12]}"
    if "://" not in place:
        place = f"file://{Path(place).absolute()}"
    target = job_target(wanted.repository, commit, prefix)
    lakefs = connections_of(settings).lakefs
    found = verify_commit(spark_configuration(settings), lakefs, target, place)
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


async def commit_of(settings: Settings, address: CommitAddress) -> CommitId:
    """The commit that a reference names now."""
    from perago.app.container import open_lakefs  # noqa: PLC0415  # heavy, and needed late

    lakefs = open_lakefs(connections_of(settings).lakefs)
    try:
        return (await lakefs.commits.read(address.repository, address.ref)).commit
    finally:
        await lakefs.close()
