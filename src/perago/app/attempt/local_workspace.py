"""The steps on the local disk: the workspace down, the guardrails, the body.

Under `settled` what the task function came to is kept beside its directory until the attempt ends.
`recover_outcome` goes on with what an attempt of the same execution left when its worker died.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path

from perago.app.attempt.checkpoints import AttemptCheckpoints
from perago.app.attempt.context import Attempt, Target
from perago.app.attempt.patience import LAKEFS
from perago.app.attempt.stage import open_staging, stored_result
from perago.app.attempt.task_function import Returned, call_body, call_checks
from perago.app.authoring.envelope import check_stored_result
from perago.app.authoring.guardrails import check_guardrails
from perago.domain.checkpoints import (
    CHECKPOINT_FOLDER,
    KeptOutcome,
    RanFor,
    checkpoint_branch,
    checkpoint_branches_of,
    read_kept_outcome,
)
from perago.domain.errors import BodyFailedError, PeragoError
from perago.domain.hand_back import Moment
from perago.domain.lakefs import CommitId, RepositoryId, StagedReference
from perago.domain.sync_plan import SyncPlan
from perago.ports.errors import ServiceError, WorkspaceLostError
from perago.ports.task_body import BodyStopped
from perago.ports.workspace import Materialised, Phase, StagingArea, WorkspaceSource, beside

OUTCOME_NOT_KEPT = "the outcome of the task function is not kept for a later attempt"
WRITES_DROPPED = "local writes of a read-only task were dropped"
OUTCOME_REFUSED = "a kept outcome cannot be used"
DROPPED_PATHS_NAMED_MAX = 10  # enough to see which part of the function wrote; one line of a log


async def materialise(attempt: Attempt) -> tuple[Path, Materialised]:
    """A fresh directory with exactly what the input commit holds under the prefix."""
    ports, workspace = attempt.ports, attempt.workspace
    directory = await ports.directories.create(attempt.marker)
    attempt.leftovers.directory = directory
    source = WorkspaceSource(workspace.repository, workspace.ref, attempt.spec.prefix)

    async def download() -> Materialised | BodyStopped:
        return await ports.stop_order.before_end_of(
            ports.lakefs.pipeline.materialise(source, directory)
        )

    async def begin_anew() -> None:
        """Half of a workspace is in the directory: begin with an empty one."""
        await ports.directories.remove(directory)
        await ports.directories.create(attempt.marker)

    materialised = await ports.patience.until_done(LAKEFS, "the download", download, begin_anew)
    if isinstance(materialised, BodyStopped):
        raise BodyFailedError(materialised.reason, cause=materialised.cause)
    attempt.leftovers.materialised = materialised
    counts = materialised.counts
    facts = {
        "objects": counts.objects,
        "bytes": counts.bytes,
        "reused": counts.reused,
        "transfer_requests": counts.requests,
    }
    ports.progress.phase(Phase.MATERIALISED, facts)
    return directory, materialised


async def check_workspace(attempt: Attempt, directory: Path, phase: str) -> None:
    """The author's guardrails; `pre` violations are terminal."""
    guardrails = attempt.spec.pre if phase == "pre" else attempt.spec.post
    if guardrails:
        await attempt.ports.concurrency.blocking(
            lambda: check_guardrails(directory, guardrails, phase)
        )
    done = Phase.PRE_CHECKED if phase == "pre" else Phase.POST_CHECKED
    attempt.ports.progress.phase(done, {"guardrails": len(guardrails)})


@dataclass(frozen=True, slots=True)
class LocalCompared:
    """A directory and the plan that brings its changes to lakeFS."""

    target: Target
    materialised: Materialised
    plan: SyncPlan
    result: Mapping[str, object]

    @property
    def changed(self) -> bool:
        """Whether the plan does anything."""
        return not self.plan.is_empty

    async def stage(self) -> StagedReference:
        """Upload the plan and commit it; an empty commit says that nothing changed."""
        stored = stored_result(self.target, self.result)
        branch = await open_staging(self.target)
        await branch.commit_pieces(stored)
        if not self.changed:
            return await branch.commit_written(stored, noop=True)
        counts = await branch.upload(self.materialised, self.plan)
        await self.target.ports.lakefs.pipeline.verify(self.materialised, self.plan, branch.area)
        return await branch.commit_changes(stored, counts)


@dataclass(frozen=True, slots=True)
class LocalRan:
    """A directory that the task function has left."""

    attempt: Attempt
    directory: Path
    materialised: Materialised
    returned: Returned

    async def check(self) -> None:
        """Judge the directory."""
        await check_workspace(self.attempt, self.directory, "post")

    async def check_staged(self, target: Target, staged: StagedReference) -> None:
        """Show the checks the directory: it holds what the staged commit holds below the prefix.

        They are the same because the commit is the input and the plan, and the plan is the
        difference between this directory and the input. `verify` has compared what lakeFS took
        with the plan, and the task function has ended. A cleaner could have removed files since,
        so the directory is asked for its marker again.
        """
        await self.attempt.ports.directories.check(self.directory, self.attempt.execution_id)
        await call_checks(target, staged, self.returned.seconds, self.directory)

    async def drop_writes(self) -> None:
        """Say what a read-only task wrote: it publishes nothing.

        Whatever cannot be compared (a symlink, a removed directory) is dropped as well.
        """
        ports = self.attempt.ports
        try:
            plan = await ports.lakefs.pipeline.plan(self.materialised)
        except (PeragoError, ServiceError) as error:
            ports.warn(WRITES_DROPPED, error=str(error))
            return
        if not plan.is_empty:
            written = chain((file.path for file in plan.upload), (to.path for to, _ in plan.copy))
            paths = islice(chain(written, plan.delete), DROPPED_PATHS_NAMED_MAX)
            ports.warn(WRITES_DROPPED, paths=list(paths))

    async def compare(self, target: Target) -> LocalCompared:
        """Compare with what was downloaded; the directory must still be this execution's.

        Asked on both sides of the scan: a cleaner that removes files while they are compared
        takes the marker too, and what it removed would look like deletions of the task function.
        """
        ports, execution_id = self.attempt.ports, self.attempt.execution_id
        await ports.directories.check(self.directory, execution_id)
        plan = await ports.lakefs.pipeline.plan(self.materialised)
        await ports.directories.check(self.directory, execution_id)
        counts = {"upload": len(plan.upload), "copy": len(plan.copy), "delete": len(plan.delete)}
        ports.progress.phase(Phase.COMPARED, counts)
        return LocalCompared(target, self.materialised, plan, self.returned.result)


def _checkpoints_of(
    attempt: Attempt, target: Target | None, directory: Path
) -> AttemptCheckpoints | None:
    """The checkpoints of an attempt; None where its ports or its level of guarantee give it none.

    Only `settled` has a key that all attempts of one logical execution share, and a decision that
    ends the need for checkpoints.
    """
    uploads = attempt.ports.lakefs.uploads
    if uploads is None or target is None or target.shared_key is None:
        return None
    key, workspace = target.shared_key, target.workspace
    branch = checkpoint_branch(key, attempt.execution_id)
    staged = StagedReference(workspace.repository, branch, workspace.ref)
    return AttemptCheckpoints(
        attempt,
        uploads,
        StagingArea(staged, CHECKPOINT_FOLDER),
        siblings=checkpoint_branches_of(key),
        directory=beside(directory),
    )


async def run_on_disk(attempt: Attempt, target: Target | None) -> LocalRan:
    """Give the task function a directory with exactly what the input commit holds below the prefix.

    Beside it lies the newest checkpoint. A first attempt does not ask for one, because nothing can
    be there. Where the function of this execution ended on this host and its worker died after it,
    only the steps that follow are left to do.
    """
    ran_for = _ran_for(attempt, target)
    recovered = None if ran_for is None else await recover_outcome(attempt, ran_for)
    if recovered is not None:
        return recovered
    directory, materialised = await materialise(attempt)
    checkpoints = _checkpoints_of(attempt, target, directory)
    if checkpoints is not None and (attempt.row.retry_count or attempt.row.poll_count > 1):
        await checkpoints.go_on_from_newest()
    await check_workspace(attempt, directory, "pre")
    returned = await call_body(attempt, directory, checkpoints)
    ran = LocalRan(attempt, directory, materialised, returned)
    if ran_for is not None:
        await _keep_outcome(ran, ran_for)  # first of all: whatever dies from now on, it is kept
    return ran


def _ran_for(attempt: Attempt, target: Target | None) -> RanFor | None:
    """For what a task function runs; None where a later attempt must run it again.

    Only `settled` has a key that tells which attempts are one execution. Under the other policies
    each attempt is a run of its own, and a retry that published the tree of another run would say
    so nowhere.
    """
    key = None if target is None else target.shared_key
    if target is None or key is None or not attempt.settings.keeps_outcomes:
        return None
    return RanFor.of(key, attempt.task.name, target.workspace, target.prefix, attempt.params)


async def _keep_outcome(ran: LocalRan, ran_for: RanFor) -> None:
    """Write down what the task function came to; a disk that refuses costs no attempt."""
    ports, returned = ran.attempt.ports, ran.returned
    try:
        described = await ports.lakefs.pipeline.describe(ran.materialised)
        if described is None:
            return
        kept = KeptOutcome(ran_for, returned.result, returned.seconds, described)
        await ports.directories.keep_outcome(ran.directory, ran_for.key, kept.as_text())
        ran.attempt.leftovers.has_outcome = True
    except (PeragoError, ServiceError) as error:
        ports.warn(OUTCOME_NOT_KEPT, error=str(error))


async def recover_outcome(attempt: Attempt, ran_for: RanFor) -> LocalRan | None:
    """Go on where an attempt of this execution died: no download, no task function.

    Looks on this disk only. What cannot be used is removed with its directory, so that the next
    attempt does not meet it again.
    """
    ports = attempt.ports
    try:
        found = await ports.directories.kept_outcomes(ran_for.key)
    except ServiceError as error:
        ports.warn(OUTCOME_REFUSED, error=str(error))
        return None
    for directory, text in found:
        try:
            return await _recovered(attempt, ran_for, directory, text)
        except (PeragoError, ServiceError) as error:
            ports.warn(OUTCOME_REFUSED, directory=str(directory), error=str(error))
            attempt.leftovers.directory = None
            with suppress(PeragoError, ServiceError):  # garbage collection finds it otherwise
                await ports.directories.remove(directory)
    return None


async def _recovered(attempt: Attempt, ran_for: RanFor, directory: Path, text: str) -> LocalRan:
    """Take a directory over and look at it; raises where its outcome is of no use here.

    Taken over first: what is compared must not be taken by another process meanwhile.
    """
    ports, kept = attempt.ports, read_kept_outcome(text)
    if kept is None:
        raise WorkspaceLostError(f"the outcome kept for {directory} cannot be read")
    if kept.ran_for != ran_for:
        raise WorkspaceLostError(f"the outcome kept for {directory} is of {kept.ran_for}")
    # A deploy may have changed the result model. No attempt could complete with the old result.
    # Nothing is decided yet, so the new code can still run.
    check_stored_result(attempt.task, kept.result)
    await ports.directories.take_over(directory, attempt.marker)
    attempt.leftovers.directory = directory
    source = WorkspaceSource(
        RepositoryId(ran_for.repository), CommitId(ran_for.input_commit), ran_for.prefix
    )
    materialised = await ports.lakefs.pipeline.reopen(source, directory, kept.directory)
    attempt.leftovers.materialised = materialised
    attempt.leftovers.moment, attempt.leftovers.has_outcome = Moment.AFTER_FUNCTION, True
    facts = {"directory": str(directory), "task_function_seconds": round(kept.seconds, 3)}
    ports.progress.phase(Phase.RECOVERED, facts)
    returned = Returned(kept.result, kept.seconds)
    return LocalRan(attempt, directory, materialised, returned)
