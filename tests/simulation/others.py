"""What people and other tools do to branches: with what, and how."""

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from tests.people import cherry_pick, merge, revert
from tests.simulation.mix import Foreign
from tests.simulation.scene import MAIN

from perago.adapters.memory.installations import RepositoryBuilder
from perago.domain.lakefs import CommitId
from perago.domain.names import RUN_BRANCH_PREFIX
from perago.ports.errors import ProtectedBranchError, RequestRefusedError

if TYPE_CHECKING:
    from tests.simulation.engine import Engine


def is_run_branch(name: str) -> bool:
    """Whether a name is that of a run branch."""
    return name.startswith(RUN_BRANCH_PREFIX)


def source_for(engine: "Engine", kind: Foreign) -> str:
    """What they work on, where there is a choice; nothing where there is none."""
    publications = engine.monitor.publications
    names = engine.scene.repository.branch_names()
    match kind:
        case Foreign.REVERT:
            return engine.scene.repository.head().commit
        case Foreign.CHERRY_PICK:
            finished = [*engine.monitor.runs.published.values()]
            newest = (finished or publications)[-1:]
            return newest[0].commit if newest else ""
        case Foreign.HAND_MERGE:
            return min((name for name in names if name.startswith("perago-staging")), default="")
        case Foreign.HAND_MERGE_OF_RUN | Foreign.ON_RUN:
            return min(filter(is_run_branch, names), default="")
        case _:
            return ""


WRITTEN: Mapping[Foreign, str] = {
    Foreign.OUTSIDE: "elsewhere/other.txt",
    Foreign.INSIDE: "data/other.txt",
    Foreign.SAME_FILE: "data/out.txt",
    Foreign.ON_RUN: "data/other.txt",
}
"""What others write, on the target unless they work on a branch of ours."""
OF_BRANCHES = frozenset(
    {Foreign.CHERRY_PICK, Foreign.HAND_MERGE, Foreign.HAND_MERGE_OF_RUN, Foreign.ON_RUN}
)
"""What takes a commit or a branch of ours, and is nothing where there is none."""


def commit_by_others(
    repository: RepositoryBuilder, kind: Foreign, count: int, source: str
) -> CommitId | None:
    """What something else does to the target branch; None where it is refused or has no source."""
    made: CommitId | None = None
    if kind in OF_BRANCHES and not source:
        return None
    # A conflict, or a protected branch: nothing happens.
    with suppress(RequestRefusedError, ProtectedBranchError):
        match kind:
            case _ if kind in WRITTEN:
                made = repository.commit({WRITTEN[kind]: str(count).encode()}, source or MAIN)
            case Foreign.EMPTY:
                made = repository.commit({}, message=f"empty {count}")
            case Foreign.MERGE:
                branch = repository.branch(f"human-{count}")
                repository.commit({f"elsewhere/{count}.txt": b"human"}, branch)
                made = merge(repository, branch)
            case Foreign.REVERT:
                made = revert(repository, source)
            case Foreign.CHERRY_PICK:
                made = cherry_pick(repository, source)
            case _:
                made = merge(repository, source)
    return made
