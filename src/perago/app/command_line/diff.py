"""`perago diff NAME`: what a run or a staged commit would change on its target, object by object.

Prints the objects that differ, in order of path. The comparison is that of lakeFS, so nothing is
downloaded.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from perago.app.command_line.reporting import (
    CommandUsageError,
    JsonOption,
    note,
    reports_errors_by_class,
    say,
    say_json,
)
from perago.app.command_line.services import (
    OneRepository,
    ask,
    conductor_if_configured,
    one_or_all,
)
from perago.app.runs.held_changes import HeldChanges, find_held, find_published
from perago.domain.text import in_units
from perago.ports.asking import all_changes
from perago.ports.lakefs import Change, ChangeKind

if TYPE_CHECKING:
    from perago.app.container import Container

_SIGNS = {ChangeKind.ADDED: "+", ChangeKind.CHANGED: "~", ChangeKind.REMOVED: "-"}


@reports_errors_by_class
def diff(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME", help="Key, branch or workflow of a run, or an execution id."
        ),
    ],
    *,
    repository: OneRepository = None,
    stat: Annotated[
        bool, typer.Option("--stat", help="Count by folder instead of naming each object.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Show what a run or a staged commit would change on its target, by object, with sizes.

    Of a run that is published already it shows what that changed.
    The size of a removed object is not known.
    """
    held, changes = ask(lambda services: _read(services, name, repository))
    if as_json:
        say_json("diff/1", _document(held, changes, stat=stat))
        return
    if stat:
        for folder, counts in _by_folder(changes).items():
            say(f"{_counted(counts)}  {folder}")
    else:
        for change in changes:
            size = "" if change.entry is None else f"  {in_units(change.entry.size)}"
            say(f"{_SIGNS[change.kind]} {change.path}{size}")
    note(f"{held.repository}: {held.base} to {held.head} ({held.branch})")
    note(_total(changes))
    if held.is_published:
        note(
            f"the run is published as {held.head} on {held.branch};"
            f" `lakectl log --first-parent lakefs://{held.repository}/{held.branch}` shows it"
        )


async def _read(
    services: "Container", name: str, repository: str | None
) -> tuple[HeldChanges, list[Change]]:
    lakefs, conductor = services.lakefs(), conductor_if_configured(services)
    searched = await one_or_all(lakefs, repository)
    held = await find_held(lakefs, name, searched)
    if held is None and conductor is not None:
        held = await find_published(lakefs, conductor.workflows, name)
    if held is None:
        where = repository or f"{len(searched)} repositories"
        text = f"expected a run, an execution or a private branch, found {name!r}"
        raise CommandUsageError(f"{text}, which is not or no longer in {where}")
    changes = all_changes(lakefs.commits, held.repository, held.base, held.head)
    return held, [change async for change in changes]


def _document(held: HeldChanges, changes: Sequence[Change], *, stat: bool) -> dict[str, object]:
    named = {"repository": held.repository, "branch": held.branch, "published": held.is_published}
    document = {**named, "base": held.base, "head": held.head, "total": _counts(changes)}
    if stat:
        return {**document, "folders": _by_folder(changes)}
    rows = [
        {
            "path": change.path,
            "kind": change.kind,
            "bytes": None if change.entry is None else change.entry.size,
        }
        for change in changes
    ]
    return {**document, "changes": rows}


def _counts(changes: Iterable[Change]) -> dict[str, int]:
    """Objects by what happened to them, and the bytes of those that are there afterwards."""
    counts = Counter({kind.value: 0 for kind in ChangeKind})
    size = 0
    for change in changes:
        counts[change.kind.value] += 1
        size += 0 if change.entry is None else change.entry.size
    return {**counts, "bytes": size}


def _by_folder(changes: Iterable[Change]) -> dict[str, dict[str, int]]:
    folders: dict[str, list[Change]] = {}
    for change in changes:
        folders.setdefault(change.path.rpartition("/")[0] + "/", []).append(change)
    return {folder: _counts(inside) for folder, inside in folders.items()}


def _counted(counts: dict[str, int]) -> str:
    signs = (f"{sign}{counts[kind.value]}" for kind, sign in _SIGNS.items() if counts[kind.value])
    return f"{' '.join(signs)} {in_units(counts['bytes'])}"


def _total(changes: Sequence[Change]) -> str:
    counts = _counts(changes)
    kinds = ", ".join(f"{counts[kind.value]} {kind.value}" for kind in _SIGNS)
    return f"{kinds}; {in_units(counts['bytes'])} are new or changed"
