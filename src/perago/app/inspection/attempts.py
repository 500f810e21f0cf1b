"""Read what Conductor and lakeFS know of the attempts of a workflow, or of a branch.

Reads only, and few requests: listings and histories come a thousand a request. A service that does
not answer is named in `missing`, and what the other one knows is shown all the same.
`attribution` finds out whose each thing is, `perago.domain.attempt_history` judges it.
"""

from collections import defaultdict
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial

from perago.app.inspection.attribution import Attribution, Found
from perago.domain import attempt_history as known
from perago.domain import names
from perago.domain.checkpoints import CHECKPOINT_BRANCH_PREFIX
from perago.domain.commit_metadata import LOGICAL_TASK_KEY, PHASE, STAGING_BRANCH, run_inside
from perago.domain.lakefs import BranchName, CommitRecord, RepositoryId
from perago.ports.asking import pages
from perago.ports.conductor import WorkflowRecord, Workflows
from perago.ports.errors import MissingError, ServiceError
from perago.ports.installations import LakeFSInstallation
from perago.ports.system import Clock

HISTORY_PAGE = 1000  # commits in one answer: the most that lakeFS gives
# 10,000 commits of a branch. Whoever looks for older ones names the workflow.
HISTORY_PAGES_MAX = 10
# 5,000 branches or tags of one kind; a screen shows 20 of them. What follows is said to be missing.
LISTING_PAGES_MAX = 5
# Of a branch on which many workflows publish, Conductor is asked for the newest ones. Each costs a
# request for all its rows, which `perago watch` sends again and again; ten fill a screen.
WORKFLOWS_MAX = 10
# Conductor's clock beside that of lakeFS: a publication may look older than its attempt. An hour is
# far above the 5 minutes that `perago doctor` calls a failure. Too little hides a publication; too
# much reads commits that are of no use.
CLOCK_SKEW = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class InspectionTools:
    """The ports that are read; without `workflows` there is no Conductor to ask."""

    lakefs: LakeFSInstallation
    clock: Clock
    workflows: Workflows | None = None


@dataclass(frozen=True, slots=True)
class Question:
    """One workflow, or a branch for some time back."""

    workflow_id: str | None = None
    repository: RepositoryId | None = None
    branch: BranchName | None = None
    since: timedelta | None = None
    decisions_kept: timedelta = timedelta(days=7)  # the default of PERAGO_GC_TAG_TTL


async def gather(tools: InspectionTools, question: Question) -> known.AttemptHistory:
    """Read everything that still tells something about these attempts."""
    gathering = _Gathering(tools, question)
    await gathering.read()
    found = gathering.found
    attribution = Attribution(found, tools.lakefs.commits)
    await attribution.run()
    tasks = attribution.tasks.values()
    for task in tasks:
        task.attempts.sort(key=_order)
    gathering.say_what_gc_may_have_taken()
    return known.AttemptHistory(
        tuple(_workflow_facts(name, record) for name, record in found.records.items()),
        tuple(sorted(tasks, key=lambda task: _order(task.attempts[0]))),
        tuple(found.branches),
        tuple(dict.fromkeys(found.missing)),
        tuple(attribution.left_over),
        tuple(found.unanswered),
    )


@dataclass(slots=True)
class _Gathering:
    """The questions to the servers, in their order."""

    tools: InspectionTools
    question: Question
    found: Found = field(default_factory=Found)

    async def read(self) -> None:
        """Conductor first: its rows say which branches of lakeFS are meant."""
        asked = self.question.workflow_id
        if asked is not None:
            await self._read_workflow(asked)
        for repository, branches in (await self._targets()).items():
            # Run branches last: one that is gone is behind the commit of its run on another.
            in_order = sorted(branches, key=lambda each: each.startswith(names.RUN_BRANCH_PREFIX))
            try:
                for branch in in_order:
                    await self._read_branch(repository, branch)
                await self._list(repository)
            except ServiceError as error:
                if not any(self.found.records.values()):
                    raise
                self._unanswered(f"lakeFS was not read to the end for {repository}: {error}")
        if asked is None:
            await self._read_newest_workflows()

    def _miss(self, sentence: str) -> None:
        self.found.missing.append(sentence)

    def _unanswered(self, sentence: str) -> None:
        self._miss(sentence)
        self.found.unanswered.append(sentence)

    async def _read_workflow(self, workflow_id: str) -> None:
        self.found.records[workflow_id] = None
        if self.tools.workflows is None:
            self._miss(
                "No Conductor is configured: status, worker and reason of attempts are missing, "
                "and attempts that left nothing in lakeFS."
            )
            return
        try:
            record = await self.tools.workflows.read(workflow_id)
        except ServiceError as error:
            self._unanswered(
                "Conductor did not answer: status, worker and reason of attempts are missing, and "
                f"attempts that left nothing in lakeFS ({error})."
            )
            return
        self.found.records[workflow_id] = record
        if record is None:
            self._miss(
                f"Conductor does not know workflow {workflow_id}: it was removed there, or the id "
                "is wrong. Attempts that left nothing in lakeFS are missing."
            )

    async def _targets(self) -> dict[RepositoryId, dict[BranchName, None]]:
        """The branches that the rows name, and what the question names; each once, in order."""
        found = defaultdict[RepositoryId, dict[BranchName, None]](dict)
        for address in (each for row in self.found.rows for each in known.addresses_in(row)):
            repository, branch = address.get("repository"), address.get("branch")
            if isinstance(repository, str) and isinstance(branch, str):
                found[RepositoryId(repository)][BranchName(branch)] = None
        repository, branch = self.question.repository, self.question.branch
        if repository is not None and branch is not None:
            found[repository][branch] = None
        elif repository is not None and repository not in found:
            facts = await self.tools.lakefs.repositories.read(repository)
            found[repository][facts.default_branch] = None
        # A workflow that Conductor knows may publish nowhere: its rows are all there is to show.
        if not found and not any(self.found.records.values()):
            text = (
                f"nothing says to which repository workflow {self.question.workflow_id} publishes"
            )
            raise known.NowhereToLookError(" ".join((f"{text}.", *self.found.missing)))
        return found

    def _oldest(self) -> datetime | None:
        """Before this moment nothing of what was asked for was published."""
        if self.question.since is not None:
            return self.tools.clock.now() - self.question.since
        times = [each for row in self.found.rows if (each := row.snapshot.scheduled_time)]
        return known.moment_of(min(times)) - CLOCK_SKEW if times else None

    async def _read_branch(self, repository: RepositoryId, branch: BranchName) -> None:
        moment = self._oldest()
        oldest = 0.0 if moment is None else moment.timestamp()
        start, found = str(branch), list[CommitRecord]()
        for _ in range(HISTORY_PAGES_MAX):
            try:
                walk = await self.tools.lakefs.commits.first_parents(
                    repository, start, None, commits_max=HISTORY_PAGE
                )
            except MissingError:
                if not await self._read_finished_run(repository, branch):
                    self._miss(f"There is no branch {branch} in {repository} any more.")
                return
            found.extend(walk.commits)
            last = walk.commits[-1]
            if not walk.truncated or not last.parents or last.created_at < oldest:
                break
            start = last.parents[0]
        else:
            self._miss(f"Of {repository}/{branch} the newest {len(found)} commits were read.")
        self.found.branches.append(
            known.BranchHistory(repository, branch, self._cut(found, oldest))
        )

    async def _read_finished_run(self, repository: RepositoryId, branch: BranchName) -> bool:
        """What was on a run branch, by the commit that brought the run to its target."""
        targets = (each for each in self.found.branches if each.repository == repository)
        for record in (record for target in targets for record in target.commits):
            head = run_inside(record)
            if head is None or record.metadata.get(STAGING_BRANCH) != branch:
                continue
            walk = await self.tools.lakefs.commits.first_parents(
                repository, head, record.parents[0], commits_max=HISTORY_PAGE
            )
            self.found.branches.append(known.BranchHistory(repository, branch, walk.above))
            return True
        return False

    def _cut(self, found: list[CommitRecord], oldest: float) -> tuple[CommitRecord, ...]:
        """Down to the commit on which the oldest attempt stands, as far as that is known."""
        inputs = {known.workspace_in(row.input_data).get("ref") for row in self.found.rows}
        begun = [number for number, each in enumerate(found, 1) if each.commit in inputs]
        newer = sum(each.created_at >= oldest for each in found)
        return tuple(found[: max(begun, default=newer + 1)])

    async def _list(self, repository: RepositoryId) -> None:
        """Branches and tags, of the one workflow or of all."""
        asked = self.question.workflow_id
        named = "" if asked is None else f"{names.workflow_segment(asked)}-"
        staging = (
            names.STAGING_BRANCH_PREFIX
            if asked is None
            else names.staging_branches_of_workflow(asked)
        )
        found, lakefs = self.found, self.tools.lakefs
        for prefix, branches in (
            (staging, found.staging),
            (f"{CHECKPOINT_BRANCH_PREFIX}{named}", found.checkpoints),
        ):
            with self._as_far_as_it_goes(f"branches {prefix}*"):
                ask = partial(lakefs.branches.list_page, repository, prefix, show_hidden=True)
                async for page in pages(ask, pages_max=LISTING_PAGES_MAX):
                    branches.extend(
                        known.LeftBranch(repository, name, head) for name, head in page.items
                    )
        for prefix, tags in (
            (f"{names.DECISION_TAG_PREFIX}{named}", found.decisions),
            (f"{names.ATTEMPT_MARK_PREFIX}{named}", found.marks),
            (names.RELOCATED_TAG_PREFIX, found.replaced),
        ):
            with self._as_far_as_it_goes(f"tags {prefix}*"):
                listing = partial(lakefs.tags.list_page, repository, prefix)
                async for listed in pages(listing, pages_max=LISTING_PAGES_MAX):
                    tags.extend(
                        known.LeftTag(repository, tag.name, tag.commit) for tag in listed.items
                    )

    @contextmanager
    def _as_far_as_it_goes(self, what: str) -> Generator[None]:
        """Keep what was listed before a service failed."""
        try:
            yield
        except ServiceError as error:
            self._unanswered(f"Of {what} not all were listed: {error}.")

    async def _read_newest_workflows(self) -> None:
        """Of a branch: the workflows that published or staged since then, newest first."""
        found, oldest = dict[str, float](), self._oldest()
        for branch in self.found.branches:
            for record in branch.commits:
                workflow = record.metadata.get(LOGICAL_TASK_KEY, "").partition("/")[0]
                is_young = oldest is None or record.created_at >= oldest.timestamp()
                # The fence's own commit has a key, `perago/fence/0`, and no phase: it is of no
                # workflow.
                if PHASE in record.metadata and workflow and is_young:
                    found[workflow] = max(found.get(workflow, 0), record.created_at)
        for left in self.found.staging:
            owner, began = (
                names.owner_by_name(left.branch),
                names.execution_time(names.staging_of(left.branch)),
            )
            if owner and began and (oldest is None or began >= oldest):
                seen = found.get(owner.workflow_id, 0)
                found[owner.workflow_id] = max(seen, began.timestamp())
        workflows = sorted(found, key=lambda each: found[each], reverse=True)
        for workflow in workflows[:WORKFLOWS_MAX]:
            await self._read_workflow(workflow)
        if len(workflows) > WORKFLOWS_MAX:
            self.found.records |= dict.fromkeys(workflows[WORKFLOWS_MAX:])
            text = f"Conductor was asked for the newest {WORKFLOWS_MAX} of {len(workflows)}"
            self._miss(f"{text} workflows; `perago attempts WORKFLOW_ID` shows one of the others.")

    def say_what_gc_may_have_taken(self) -> None:
        """Say that decisions may be gone: gc removes them some days after their workflow."""
        newest = max((row.snapshot.scheduled_time for row in self.found.rows), default=0)
        kept = self.question.decisions_kept
        if newest and self.tools.clock.now() - known.moment_of(newest) > kept:
            self._miss(
                f"Garbage collection removes decisions {kept.days} days after the end of their "
                "workflow (PERAGO_GC_TAG_TTL): one that is not shown may have been there."
            )


def _workflow_facts(workflow_id: str, record: WorkflowRecord | None) -> known.WorkflowFacts:
    if record is None:
        return known.WorkflowFacts(workflow_id)
    children = [row.output_data.get("subWorkflowId") for row in record.attempts]
    found = tuple(str(each) for each in children if each)
    return known.WorkflowFacts(workflow_id, record.status, record.reason, found, record.name)


def _order(attempt: known.AttemptEvidence) -> tuple[datetime, int]:
    row, began = attempt.row, attempt.began
    scheduled = (
        known.moment_of(row.snapshot.scheduled_time) if row else datetime.min.replace(tzinfo=UTC)
    )
    return (began or scheduled, attempt.retry_count)
