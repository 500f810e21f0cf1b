"""`perago gc [REPO...]`: remove what crashed attempts left in lakeFS and on this disk.

With `--dry-run` everything is judged and nothing is removed.
"""

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from perago.app.command_line.reporting import UNANSWERED, JsonOption, note, say, say_json, warn
from perago.app.command_line.services import ask
from perago.app.gc.judging import Judged, one_age, retention_times
from perago.app.gc.local_pass import LocalPass, sweep_directories
from perago.app.gc.remote_pass import RemotePass
from perago.app.settings.parsing import parse_time_to_live
from perago.app.settings.settings import load_settings
from perago.domain.lakefs import RepositoryId
from perago.domain.retention import RetentionTimes
from perago.ports.asking import all_repositories
from perago.ports.errors import ServiceError

if TYPE_CHECKING:
    from perago.app.container import Container

INCOMPLETE = 1  # something that was judged could not be removed, and the lines say what
# Of thousands of repositories a person wants to see that it goes on; a short pass says nothing.
PROGRESS_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class _Done:
    repositories: dict[str, list[Judged]]
    local: LocalPass
    unreached: list[ServiceError]


def gc(
    repositories: Annotated[
        list[str] | None,
        typer.Argument(metavar="REPO", help="Repositories to clean. Default: all of them."),
    ] = None,
    *,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be removed and why.")
    ] = False,
    older_than: Annotated[
        str | None,
        typer.Option(
            "--older-than", help="Use this age instead of all retention settings, e.g. 48h."
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Remove what nothing needs any more, in lakeFS and on this disk.

    Left by attempts that crashed: directories, staging branches, checkpoints. Left by workflows
    that ended: decisions, marks, bases, and runs that were not published (7 days, as a rule).

    Workers do the same by themselves. docs/operations.md#garbage-collection has every age.
    """
    settings = load_settings()
    times = retention_times(settings)
    if older_than is not None:
        times = one_age(parse_time_to_live(older_than, "--older-than"))
    done = ask(
        lambda services: _collect(services, repositories or [], times, dry_run=dry_run), settings
    )
    failed = [each for judged in done.repositories.values() for each in judged if each.error]
    if as_json:
        say_json("gc/1", _document(done, dry_run=dry_run))
    else:
        _print(done, dry_run=dry_run)
    if done.unreached:
        if as_json:  # the document has told, and there is one only
            raise typer.Exit(UNANSWERED)
        raise done.unreached[0]
    if failed or done.local.failed:
        raise typer.Exit(INCOMPLETE)


async def _collect(
    services: "Container", repositories: list[str], times: RetentionTimes, *, dry_run: bool
) -> _Done:
    lakefs, queue, clock = services.lakefs(), services.conductor().queue, services.clock()
    judged: dict[str, list[Judged]] = {}
    unreached: list[ServiceError] = []
    names = repositories or list(await all_repositories(lakefs.repositories))
    said = clock.monotonic()
    for number, name in enumerate(map(RepositoryId, names), start=1):
        if clock.monotonic() - said >= PROGRESS_SECONDS:
            said = clock.monotonic()
            note(f"repository {number} of {len(names)}: {name}")
        try:
            judged[name] = await RemotePass(lakefs, queue, clock, name, times, dry_run).run()
        except ServiceError as error:  # the others are looked through first
            unreached.append(error)
    local = await sweep_directories(services.directories(), times, queue, dry_run=dry_run)
    return _Done(judged, local, unreached)


def _print(done: _Done, *, dry_run: bool) -> None:
    word = "would remove" if dry_run else "removed"
    for repository, judged in done.repositories.items():
        for each in judged:
            if each.error is not None:
                warn(f"{each.kind} {repository}/{each.name}: {each.error}")
            else:
                verb = word if each.removed else "kept"
                say(f"{verb}: {each.kind} {repository}/{each.name} ({each.reason})")
    for unreached in done.unreached[1:]:  # the first is how the command ends
        warn(str(unreached))
    for path in done.local.removed:
        say(f"{word}: attempt directory {path}")
    local = (*done.local.removed, *done.local.failed)
    if not (local or done.unreached or any(done.repositories.values())):
        note(f"nothing to remove in {len(done.repositories)} repositories or on this disk")
    for path, error in done.local.failed:
        warn(f"attempt directory {path}: {error}")


def _document(done: _Done, *, dry_run: bool) -> dict[str, object]:
    return {
        "dry_run": dry_run,
        "repositories": {
            repository: [asdict(each) for each in judged]
            for repository, judged in done.repositories.items()
        },
        "unreached": [str(error) for error in done.unreached],
        "directories": {
            "removed": [str(path) for path in done.local.removed],
            "failed": [{"path": str(path), "error": error} for path, error in done.local.failed],
        },
    }
