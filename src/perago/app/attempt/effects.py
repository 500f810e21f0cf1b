"""The one request that moves the target branch, what it needs before, and what became of it.

A plan is made for the head that was read. Where that is not the input, a commit for it is made on a
scratch branch first. An unanswered effect of the documents' policies is settled by looking at the
target. Under a policy that decides by a tag this is not needed: the next round of `publish` finds
the publication by its key, or sends the same merge again.
"""

from contextlib import suppress
from dataclasses import dataclass
from typing import assert_never

from perago.app.attempt import stage
from perago.app.attempt.context import Attempt, AttemptPorts, Target
from perago.app.attempt.patience import WorkTime
from perago.domain import errors, outcome, settled
from perago.domain.lakefs import BranchName, CommitId, RepositoryId, StagedReference
from perago.domain.lineage import FIRST_PARENT_COMMITS_MAX
from perago.domain.names import relocated_tag
from perago.domain.outcome import NotPublished, Published
from perago.domain.paths import ROOT_PREFIX, listing_prefix
from perago.domain.policy import WorkspacePublicationPlan
from perago.domain.publication import Isolation, MergeExactTree, MergeStaged, Relocate
from perago.domain.settled import AfterLook, AfterMerge, KeepLooking, LookAgain
from perago.ports.errors import ServiceError, TagExistsError
from perago.ports.lakefs import CommitRequest, MergeRequest

# Between two looks. Short at first, because the other publishers of this process wait for the
# branch. With this factor the fifteenth look is past the usual deadline of 60 s; twenty (LOOKS_MAX)
# serve longer ones too.
FIRST_PAUSE_SECONDS = 0.05
PAUSE_FACTOR = 1.6


@dataclass(frozen=True, slots=True)
class PlannedEffect:
    """One plan of an attempt, on its way to the target branch."""

    target: Target
    plan: WorkspacePublicationPlan

    async def prepare(self) -> CommitId | LookAgain:
        """Make what the effect needs before the attempt fence; the commit it works with."""
        plan = self.plan
        match plan.effect:
            case MergeStaged(staged, expected_head):
                if expected_head == plan.input_ref:
                    return staged.commit  # the target is at its base: lakeFS takes the staged tree
                return await self._rebase(staged)
            case MergeExactTree(tree):
                return await self._commit_exact_tree(tree)
            case Relocate(to, abandoned, owner_is_known):
                if not owner_is_known:
                    self.target.ports.warn("the replaced head names no owner", head=abandoned)
                await refuse_dirty_target(self.target.ports, plan.repository, plan.branch)
                tag = relocated_tag(abandoned, self.target.attempt.execution_id)
                # It keeps the old head reachable, because a relocation has no reflog.
                with suppress(TagExistsError):  # an earlier round of this execution left it
                    await self.target.ports.lakefs.tags.create(plan.repository, tag, abandoned)
                return to
            case _:
                text = f"{plan.effect} needs no effect"
                raise AssertionError(text)

    async def perform(self, prepared: CommitId) -> AfterMerge:
        """Send the one request that moves the target branch."""
        if isinstance(self.plan.effect, Relocate):
            return await self._relocate(prepared)
        after = await self._merge(prepared, timeout_seconds=self.target.attempt.effect_seconds)
        # lakeFS says only that the target has uncommitted objects. This raises with their names.
        if isinstance(after, NotPublished) and after.code == "PRG-F013":
            await refuse_dirty_target(self.target.ports, self.plan.repository, self.plan.branch)
        return after

    async def settle(self, prepared: CommitId, unanswered: settled.Unanswered) -> Published:
        """Conclude, or raise OutcomeUnknownAtDeadlineError with the evidence.

        Until it is concluded nothing is cleaned: the effect may still land. The last look is at the
        deadline itself.
        """
        leftovers, clock = self.target.attempt.leftovers, self.target.ports.clock
        leftovers.staging_may_go = False
        time = WorkTime(self.target.ports.patience, clock, self.target.attempt.effect_seconds)
        seen = unanswered.reason
        pause = FIRST_PAUSE_SECONDS
        for _ in range(settled.LOOKS_MAX):
            after = await self._look()
            seen = after.reason if isinstance(after, KeepLooking) else seen
            left = time.left
            if isinstance(after, settled.SendAgain):
                seen = f"the head is still {self.plan.base}"
                if left > 0:
                    after = await self._send_again(prepared, left)
            if isinstance(after, Published):
                leftovers.staging_may_go = True
                return after
            if isinstance(after, NotPublished):
                leftovers.staging_may_go = True
                raise errors.PublicationRefusedError(after.reason, code=after.code)
            if left <= 0:
                break
            await clock.sleep(min(pause, max(time.left, 0.0)))
            pause *= PAUSE_FACTOR
        raise unknown_outcome(self.target.attempt, self.plan.base, self.plan.staged, seen)

    async def check(self, ref: CommitId, prepared: CommitId) -> None:
        """After a merge under the fence: its parent must be the expected head."""
        plan = self.plan
        if isinstance(plan.effect, Relocate) or not plan.level.fenced:
            return
        tree_of = prepared if self.target.isolation is Isolation.PREFIX else None
        # Under `settled` terminal: a retry would find the publication by its key, and hide this.
        terminal = plan.level.shape.decides_by_tag
        parents = (plan.base,)
        expected = stage.ExpectedMerge(plan.repository, plan.branch, parents, tree_of, terminal)
        await stage.check_merge(self.target.ports, ref, expected)

    async def _merge(self, prepared: CommitId, *, timeout_seconds: float) -> AfterMerge:
        """The merge of a plan and nothing else, so that it may be sent again word for word."""
        plan = self.plan
        request = MergeRequest(
            repository=plan.repository,
            source=prepared,
            target=plan.branch,
            message=plan.message,
            metadata=plan.metadata,
            # A superseding tree may equal the superseded one; every other empty merge is a mistake.
            allow_empty=isinstance(plan.effect, MergeExactTree),
            timeout_seconds=timeout_seconds,
        )
        return settled.after_merge(await self.target.ports.lakefs.branches.merge(request))

    async def _relocate(self, to: CommitId) -> AfterMerge:
        branch, seconds = self.plan.branch, self.target.attempt.effect_seconds
        answer = await self.target.ports.lakefs.branches.relocate(
            self.plan.repository, branch, to, timeout_seconds=seconds
        )
        match answer:
            case outcome.Relocated():
                return Published(to)
            case outcome.RelocationRefused(text, protected):
                if protected:
                    remedy = (
                        f"{branch} is protected, so an abandoned publication cannot be replaced "
                        "under head-parent; use policy settled (`perago fence install`) or lineage"
                    )
                    return NotPublished("PRG-F014", f"{remedy}: {text}")
                return NotPublished("PRG-L003", text)
            case outcome.NoAnswer(text):
                return settled.Unanswered(text)
            case _:
                assert_never(answer)

    async def _look(self) -> AfterLook:
        """One look at the target; a failed look is a look that saw nothing.

        A later attempt may have published on top of ours meanwhile. So the look goes below the
        head, also under a policy that decides by the head alone.
        """
        plan, address, bound = self.plan, self.target.workspace, FIRST_PARENT_COMMITS_MAX + 1
        try:
            walk = await self.target.ports.lakefs.commits.first_parents(
                address.repository, address.branch, address.ref, commits_max=bound
            )
        except ServiceError as error:
            return KeepLooking(str(error))
        if isinstance(plan.effect, Relocate):
            head, old_head, to = walk.head.commit, plan.effect.abandoned, plan.effect.to
            return settled.look_after_relocation(head, old_head=old_head, target=to)
        return settled.look_after_merge(
            walk,
            expected_head=plan.base,
            execution_id=self.target.attempt.execution_id,
            fenced=plan.level.fenced,
        )

    async def _send_again(self, prepared: CommitId, seconds: float) -> AfterLook:
        """The same merge once more, under the fence: at most one can win.

        Only success is an answer to both: whatever refuses this one says nothing of the first.
        """
        try:
            after = await self._merge(prepared, timeout_seconds=seconds)
        except ServiceError as error:
            return KeepLooking(str(error))
        return after if isinstance(after, Published) else KeepLooking(after.reason)

    async def _rebase(self, staged: StagedReference) -> CommitId | LookAgain:
        """The staged prefix merged onto a head that moved, proven before readers see it.

        lakeFS's three-way merge can lose objects without a conflict (an object that equals its
        neighbour in path order). So it runs on a scratch branch first; what comes out must be the
        head outside the prefix and the staged tree inside. Only that commit is published, onto the
        very head it was made for, which lakeFS takes over as it is. A scratch branch may be merged
        into twice: the second commit has the same tree.
        """
        plan, seconds = self.plan, self.target.attempt.effect_seconds
        scratch, _ = await stage.open_scratch(self.target.attempt, plan.repository, plan.base)
        request = MergeRequest(
            plan.repository, staged.commit, scratch, plan.message, timeout_seconds=seconds
        )
        answer = await self.target.ports.lakefs.branches.merge(request)
        if isinstance(answer, outcome.NoAnswer | outcome.TooManyTries):
            return LookAgain(answer.text)  # only this attempt knows the branch
        if not isinstance(answer, outcome.Merged):
            text = f"the staged prefix does not merge onto head {plan.base}: {answer}"
            raise errors.PublicationRefusedError(text, code="PRG-F015")
        await self._check_inside(staged.commit, answer.commit)
        await self._check_outside(answer.commit)
        return answer.commit

    async def _check_inside(self, staged: CommitId, merged: CommitId) -> None:
        """Below the prefix nothing may differ from what was staged."""
        repository, prefix = self.plan.repository, listing_prefix(self.target.prefix)
        page = await self.target.ports.lakefs.commits.diff_page(
            repository, staged, merged, prefix=prefix, amount=errors.PATHS_NAMED_MAX
        )
        if page.items:
            raise _lost(", ".join(change.path for change in page.items))

    async def _check_outside(self, merged: CommitId) -> None:
        """Before and behind the prefix nothing may differ from the head."""
        plan, prefix = self.plan, self.target.prefix
        if prefix == ROOT_PREFIX:  # there is no outside; reserved objects are not staged
            return
        lost = await stage.first_difference_outside(
            self.target.ports, plan.repository, plan.base, merged, prefix
        )
        if lost is not None:
            raise _lost(lost)

    async def _commit_exact_tree(self, tree: CommitId) -> CommitId:
        """A commit with exactly that tree on top of the head, on a scratch branch."""
        ports, plan = self.target.ports, self.plan
        record = await ports.lakefs.commits.read(plan.repository, tree)
        scratch, _ = await stage.open_scratch(self.target.attempt, plan.repository, plan.base)
        request = CommitRequest(
            repository=plan.repository,
            branch=scratch,
            message=plan.message,
            metadata=plan.metadata,
            allow_empty=True,
            source_metarange=record.metarange,
        )
        return await stage.commit_on_private_branch(self.target.attempt, request)


def _lost(names: str) -> errors.PublicationRefusedError:
    text = f"lakeFS's merge would change objects of others: {names}; nothing was published"
    return errors.PublicationRefusedError(text, code="PRG-F015")


def unknown_outcome(
    attempt: Attempt,
    expected_head: CommitId,
    staged: StagedReference | CommitId | None,
    seen: str,
) -> errors.OutcomeUnknownAtDeadlineError:
    """Log the evidence and keep every branch, because an operator who looks later needs both."""
    attempt.leftovers.staging_may_go = False
    attempt.leftovers.outcome_unknown = True
    evidence = {"expected_head": expected_head, "seen": seen, "staged": staged}
    attempt.ports.warn(errors.OUTCOME_UNKNOWN, **evidence)
    return errors.OutcomeUnknownAtDeadlineError(seen)


async def refuse_dirty_target(
    ports: AttemptPorts, repository: RepositoryId, branch: BranchName
) -> None:
    """Raise with the names of uncommitted objects on the target, if there are any."""
    page = await ports.lakefs.commits.uncommitted_page(
        repository, branch, amount=errors.PATHS_NAMED_MAX
    )
    if page.items:
        names = ", ".join(change.path for change in page.items)
        more = ", ..." if page.more else ""
        address = f"lakefs://{repository}/{branch}"
        text = (
            f"{address} has uncommitted objects ({names}{more}); `lakectl branch reset {address}`"
        )
        raise errors.PublicationRefusedError(text, code="PRG-F013")
