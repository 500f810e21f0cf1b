"""The rule of `perago.join`: of several workspaces on one branch, the one that holds all others.

Told which histories contain which commits; reading them is not known here.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from perago.domain.logical_execution import CommitId, WorkspaceReference


@dataclass(frozen=True, slots=True)
class Joined:
    """This workspace's history contains all the others."""

    workspace: WorkspaceReference


@dataclass(frozen=True, slots=True)
class JoinRefused:
    """No workspace stands for all; `reason` names what was found on both sides."""

    reason: str


JoinVerdict: TypeAlias = Joined | JoinRefused


def join_workspaces(
    workspaces: Sequence[WorkspaceReference],
    histories: Mapping[CommitId, Collection[CommitId]],
) -> JoinVerdict:
    """Pick the workspace that contains all others.

    `histories` names for each ref the refs that its history contains; a ref contains itself.
    """
    if not workspaces:
        return JoinRefused("there is no workspace to join")
    first = workspaces[0]
    for other in workspaces:
        if (other.repository, other.branch) != (first.repository, first.branch):
            return JoinRefused(f"{_named(first)} and {_named(other)} are different branches")
    refs = tuple(dict.fromkeys(workspace.ref for workspace in workspaces))
    best, held = first, frozenset[CommitId]()
    for workspace in workspaces:
        contained = frozenset(histories.get(workspace.ref, ())) | {workspace.ref}
        if contained.issuperset(refs):
            return Joined(workspace)
        if len(contained.intersection(refs)) > len(held):
            best, held = workspace, contained.intersection(refs)
    inside = ", ".join(ref for ref in refs if ref in held)
    outside = ", ".join(ref for ref in refs if ref not in held)
    return JoinRefused(
        f"no workspace of {_named(first)} contains all others: "
        f"{best.ref} contains [{inside}] and lacks [{outside}]"
    )


def _named(workspace: WorkspaceReference) -> str:
    return f"{workspace.repository}/{workspace.branch}"
