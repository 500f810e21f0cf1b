"""The one request that moves the target of a run, what its answer means, and a run's rebase.

Onto a target that moved a run is merged on a scratch branch, and proven before readers see it.
lakeFS's three-way merge can lose an object without a conflict (ADR 4), so what comes out is
compared with both sides. Where no path was changed twice, these two comparisons are the whole
proof: what the run changed is as the run left it, and everything else is as the head has it.
"""

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import partial
from typing import assert_never

from perago.app.attempt.context import Attempt, AttemptPorts
from perago.app.attempt.effects import refuse_dirty_target
from perago.app.attempt.publish import Pending
from perago.app.attempt.stage import ExpectedMerge, check_merge, open_scratch
from perago.domain import outcome
from perago.domain.commit_metadata import EXPECTED_HEAD
from perago.domain.errors import PublicationRefusedError, RunRefusedError
from perago.domain.lakefs import BranchName, CommitId
from perago.domain.paths import ACTIONS_PREFIX
from perago.domain.run import History, Run, start_anew
from perago.domain.settled import LookAgain, Unanswered, after_merge
from perago.ports.asking import all_changes
from perago.ports.lakefs import Change, ChangeKind, MergeRequest


@dataclass(frozen=True, slots=True)
class Merge:
    """A merge of `source` onto `expected_head`; the source has the run head or its rebased tree."""

    run: Run
    run_head: CommitId
    source: CommitId
    expected_head: CommitId
    history: History
    metadata: Mapping[str, str]
    message: str

    def request(self, target: BranchName, *, timeout_seconds: float) -> MergeRequest:
        """The same word for word each time, so that it may be sent again.

        A run whose tasks took back what they did has the base's tree; it is published all the same,
        because its tasks have ended.
        """
        return MergeRequest(
            repository=self.run.repository,
            source=self.source,
            target=target,
            message=self.message,
            metadata=self.metadata,
            allow_empty=True,
            squash=self.history is History.SQUASH,
            timeout_seconds=timeout_seconds,
        )

    @property
    def parents(self) -> tuple[CommitId, ...]:
        """What the commit must stand on."""
        squashed = self.history is History.SQUASH
        return (self.expected_head,) if squashed else (self.expected_head, self.source)


async def merge_run(
    attempt: Attempt, merge: Merge, *, again: bool
) -> CommitId | LookAgain | Pending:
    """Send the merge, and check what it has made; `again` if an earlier one got no answer."""
    ports, run = attempt.ports, merge.run
    request = merge.request(run.branch, timeout_seconds=attempt.effect_seconds)
    answer = await ports.lakefs.branches.merge(request)
    if isinstance(answer, outcome.NoChanges) and again:
        return LookAgain(answer.text)  # the earlier one has arrived: the next look has it
    after = after_merge(answer)
    match after:
        case outcome.Published(ref):
            # A retry would find the publication by its key, and hide what is wrong with it.
            parents, tree_of = merge.parents, merge.source
            expected = ExpectedMerge(run.repository, run.branch, parents, tree_of, terminal=True)
            await check_merge(ports, ref, expected)
            return ref
        case LookAgain():
            return after
        case Unanswered(reason):
            return Pending(merge.expected_head, merge.run_head, reason)
        case outcome.NotPublished(code, reason, is_of_the_commit):
            if code == "PRG-F013":
                await refuse_dirty_target(ports, run.repository, run.branch)
            more = f"; {start_anew(run.repository, run.branch)}" if is_of_the_commit else ""
            raise PublicationRefusedError(f"{reason}{more}", code=code, terminal=is_of_the_commit)
        case _:
            assert_never(after)


async def find_touched(
    ports: AttemptPorts, run: Run, run_head: CommitId, head: CommitId
) -> str | None:
    """What keeps the run from being rebased.

    A path that both sides changed, a reserved one, or a file of one side that is a folder of the
    other: lakeFS holds both, and no directory can.
    """
    changes = partial(all_changes, ports.lakefs.commits, run.repository)
    mine, theirs = changes(run.base, run_head), changes(run.base, head)
    files: list[tuple[str, bool]] = []
    async with aclosing(mine), aclosing(theirs):
        left, right = await anext(mine, None), await anext(theirs, None)
        while left is not None or right is not None:
            if left is not None and right is not None and left.path == right.path:
                return f"{left.path} was changed by the run and on {run.branch}"
            # Both are in order of path: the lower one has no equal on the other side.
            if right is None or (left is not None and left.path < right.path):
                assert left is not None, "one of the two is there"
                change, of_the_run, left = left, True, await anext(mine, None)
            else:
                change, of_the_run, right = right, False, await anext(theirs, None)
            if change.path.startswith(ACTIONS_PREFIX):
                return f"{change.path} was changed, which is reserved"
            if (file := _file_above(files, change, of_the_run=of_the_run)) is not None:
                return f"{file} is a file on one side, and {change.path} on the other"
    return None


def _file_above(files: list[tuple[str, bool]], change: Change, *, of_the_run: bool) -> str | None:
    """The file of the other side in whose place this change needs a folder.

    `files` holds what came before and this path begins with. Names such as `a-b` and `a.b` come
    between `a` and `a/b`, so the last one alone would not do.
    """
    while files and not change.path.startswith(files[-1][0]):
        files.pop()
    if change.kind is ChangeKind.REMOVED:
        return None
    above = (path for path, whose in files if whose is not of_the_run)
    found = next((path for path in above if change.path.startswith(f"{path}/")), None)
    files.append((change.path, of_the_run))
    return found


async def rebase_run(attempt: Attempt, merge: Merge) -> CommitId | LookAgain:
    """The run merged onto the expected head, on a branch of our own; the commit, proven."""
    made = await _merge_on_scratch(attempt, merge)
    if isinstance(made, LookAgain):
        return made
    run, head = merge.run, merge.expected_head
    changes = partial(all_changes, attempt.ports.lakefs.commits, run.repository)
    lost = await _first_difference(
        changes(head, made), changes(run.base, merge.run_head)
    ) or await _first_difference(changes(merge.run_head, made), changes(run.base, head))
    if lost is None:
        return made
    text = f"lakeFS's merge of the run onto {head} would change {lost} otherwise than the run did"
    raise RunRefusedError(f"{text}; nothing was published", code="PRG-N007")


async def _merge_on_scratch(attempt: Attempt, merge: Merge) -> CommitId | LookAgain:
    """Merge, or find what an earlier round of this execution has merged onto the same head."""
    branches, run, head = attempt.ports.lakefs.branches, merge.run, merge.expected_head
    scratch, is_new = await open_scratch(attempt, run.repository, head)
    if not is_new:
        found = await branches.head(run.repository, scratch)
        if found.commit != head:
            return found.commit
    request = merge.request(scratch, timeout_seconds=attempt.effect_seconds)
    # Not the metadata of a publication, because no look may take this commit for one.
    request = replace(request, metadata={EXPECTED_HEAD: head})
    answer = await branches.merge(request)
    if isinstance(answer, outcome.Merged):
        return answer.commit
    # Only this execution knows the branch: what moved it is an earlier merge without an answer.
    if isinstance(answer, outcome.NoAnswer | outcome.TooManyTries | outcome.HeadMoved):
        return LookAgain(answer.text)
    text = f"the run does not merge onto head {head} of {run.branch}: {answer}"
    raise RunRefusedError(text, code="PRG-N007")


async def _first_difference(
    found: AsyncGenerator[Change], expected: AsyncGenerator[Change]
) -> str | None:
    """The first path that two differences do not have in common, or have of another kind."""
    async with aclosing(found), aclosing(expected):
        while True:
            left, right = await anext(found, None), await anext(expected, None)
            if left is None and right is None:
                return None
            if left is None or right is None or (left.path, left.kind) != (right.path, right.kind):
                return min(change.path for change in (left, right) if change is not None)
