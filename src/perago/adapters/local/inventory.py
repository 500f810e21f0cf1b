"""What a commit holds under a prefix, checked by name before anything moves.

Knows the listing, not the disk beyond the rules it is given for names.
"""

from collections.abc import Awaitable, Collection, Iterable, Sequence
from dataclasses import dataclass

from perago.domain.prefix_projection import (
    DEFAULT_NAME_RULES,
    NameRules,
    are_plain,
    collision,
    is_directory_marker,
    listing_prefix,
    name_problem,
)
from perago.domain.reserved_paths import is_reserved_object
from perago.ports.concurrency import Concurrency
from perago.ports.errors import RequestRefusedError, UnsafeNameError
from perago.ports.objects import LIST_AMOUNT_MAX, ObjectEntry, ObjectPage, Objects
from perago.ports.workspace_pipeline import WorkspaceSource


@dataclass(frozen=True, slots=True)
class Inventory:
    """The business objects of a workspace in order of path, and what asking for them cost.

    `news` are the object paths that this host has not seen as they are, None when all may be.
    """

    prefix: str
    entries: Sequence[ObjectEntry]
    requests: int
    news: Collection[str] | None = None

    def names(self) -> list[str]:
        """The relative paths, in the order of the entries."""
        outer = len(listing_prefix(self.prefix))
        return [entry.path[outer:] for entry in self.entries]


class WorkspaceTooLargeError(RequestRefusedError):
    """A workspace has more objects than one process is to move."""

    def __init__(self, source: WorkspaceSource, objects_max: int) -> None:
        super().__init__(
            f"{source.prefix} of {source.repository} has more than {objects_max} objects"
        )
        self.objects_max = objects_max


async def take_inventory(
    objects: Objects,
    concurrency: Concurrency,
    source: WorkspaceSource,
    *,
    objects_max: int | None = None,
) -> Inventory:
    """List a workspace page by page; names are not checked."""
    entries: list[ObjectEntry] = []

    def ask(after: str) -> Awaitable[ObjectPage]:
        prefix = listing_prefix(source.prefix)
        return objects.list_page(
            source.repository, source.commit, prefix=prefix, after=after, amount=LIST_AMOUNT_MAX
        )

    async def take(page: ObjectPage) -> None:
        entries.extend(entry for _, entry in business_entries(source.prefix, page.entries))
        if objects_max is not None and len(entries) > objects_max:
            raise WorkspaceTooLargeError(source, objects_max)

    page = await ask("")
    requests = 1
    while page.more:
        # The next page is on its way while this one is read.
        page, _ = await concurrency.together(ask(page.entries[-1].path), take(page))
        requests += 1
    await take(page)
    return Inventory(source.prefix, entries, requests)


def business_entries(
    prefix: str, entries: Iterable[ObjectEntry]
) -> Iterable[tuple[str, ObjectEntry]]:
    """The entries a task may see, each with its relative path."""
    outer = listing_prefix(prefix)
    for entry in entries:
        path = entry.path
        if not path.startswith(outer) or is_reserved_object(path):
            continue
        relative = path[len(outer) :]
        if not is_directory_marker(relative, entry.size):
            yield relative, entry


def refuse_unsafe_names(
    repository: str, names: Sequence[str], rules: NameRules = DEFAULT_NAME_RULES
) -> None:
    """Raise for the first name that cannot stand in lakeFS and on disk alike."""
    if not are_plain(names, rules):
        for name in names:
            refuse_unsafe_name(repository, name, rules)
    clash = collision(names, rules)
    if clash is not None:
        raise name_clash(repository, *clash)


def refuse_unsafe_name(repository: str, name: str, rules: NameRules) -> None:
    """Raise for a name that cannot stand in lakeFS and on disk alike."""
    problem = name_problem(name, rules)
    if problem is not None:
        raise UnsafeNameError(
            f"object {name!r} of {repository} {problem}; nothing was moved; rename it"
        )


def name_clash(repository: str, one: str, other: str) -> UnsafeNameError:
    """The error for two names that one directory cannot hold."""
    return UnsafeNameError(
        f"objects {one!r} and {other!r} of {repository} cannot stand in one directory;"
        " nothing was moved; rename one of them"
    )
