"""The one request that moves the target of a run, and what its answer means."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import assert_never

from perago.app.attempt.context import Attempt, AttemptPorts
from perago.app.attempt.facts import refuse_dirty_target
from perago.app.attempt.publish import Pending
from perago.app.attempt.stage import ExpectedMerge, check_merge
from perago.domain.errors import PublicationRefusedError
from perago.domain.finish import History
from perago.domain.logical_execution import BranchName, CommitId
from perago.domain.outcome import NoChanges, NotPublished, Published
from perago.domain.run import Run
from perago.domain.settled import LookAgain, Unanswered, after_merge, start_anew
from perago.ports.lakefs import MergeRequest


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
    ports: AttemptPorts, attempt: Attempt, merge: Merge, *, again: bool
) -> CommitId | LookAgain | Pending:
    """Send the merge, and check what it has made; `again` if an earlier one got no answer."""
    run = merge.run
    request = merge.request(run.branch, timeout_seconds=attempt.effect_seconds)
    answer = await ports.lakefs.branches.merge(request)
    if isinstance(answer, NoChanges) and again:  # the earlier one has arrived: the next look has it
        return LookAgain(answer.text)
    after = after_merge(answer)
    match after:
        case Published(ref):
            # A retry would find the publication by its key, and hide what is wrong with it.
            parents, tree_of = merge.parents, merge.source
            expected = ExpectedMerge(run.repository, run.branch, parents, tree_of, terminal=True)
            await check_merge(ports, ref, expected)
            return ref
        case LookAgain():
            return after
        case Unanswered(reason):
            return Pending(merge.expected_head, merge.run_head, reason)
        case NotPublished(code, reason, is_of_the_commit):
            if code == "PRG-F013":
                await refuse_dirty_target(ports, run.repository, run.branch)
            more = f"; {start_anew(run.repository, run.branch)}" if is_of_the_commit else ""
            raise PublicationRefusedError(f"{reason}{more}", code=code, terminal=is_of_the_commit)
        case _:
            assert_never(after)
