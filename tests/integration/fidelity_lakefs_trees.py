"""What can be seen of a commit's tree, for operations whose answer hangs on what cannot be seen.

lakeFS writes a tree as a list of range files; where it is cut depends on the commits before. A
revert or pick that changes nothing visible is refused or a commit by which file has which of two
equal objects, so the machine leaves it out.
"""

from collections.abc import Mapping

from perago.domain.lakefs import CommitId, RepositoryId
from perago.ports.installations import LakeFSInstallation

# Checksum, content type and metadata: two objects of one identity differ in none.
Seen = Mapping[str, tuple[object, ...]]


async def shows_nothing(
    ports: LakeFSInstallation,
    repository: RepositoryId,
    *,
    base: CommitId,
    source: CommitId,
    head: CommitId,
) -> bool:
    """Whether the head already shows all that changed from the base to the source."""
    before, after, now = [await _seen(ports, repository, ref) for ref in (base, source, head)]
    changed = {path for path, _ in before.items() ^ after.items()}
    return all(now.get(path) == after.get(path) for path in changed)


async def _seen(ports: LakeFSInstallation, repository: RepositoryId, ref: CommitId) -> Seen:
    page = await ports.objects.list_page(repository, ref, prefix="")
    assert not page.more
    return {
        each.path: (each.checksum, each.content_type, tuple(sorted(each.metadata.items())))
        for each in page.items
    }
