"""What the servers know of a workflow as a page, which is read again and again.

`Watcher` reads less often while nothing changes. A service that does not answer takes nothing off
the page: what was read before stays, and the page says what is missing since then. `page_of` makes
the page of a history. Nothing is judged here: `perago.domain.attempt_history` says how far an
attempt came. A step without proof is not seen, and a step without a time has none.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from perago.app.inspection.attempts import InspectionTools, Question, gather
from perago.app.page import model as views
from perago.app.page.model import PageView, RunState, Seen, Step
from perago.app.runs.begin import RunReference, run_begun_by
from perago.domain import attempt_history as known
from perago.domain.commit_metadata import LOGICAL_TASK_KEY, RUN, STAGING_COMMIT, attempt_number
from perago.domain.lakefs import CommitId, CommitRecord, RepositoryId
from perago.domain.names import RUN_BRANCH_PREFIX
from perago.domain.run import key_of_run
from perago.ports.errors import MissingError, ServiceError

# A reading is eight requests. Every two seconds they are nothing to a server, and an eye can follow
# a step that is shown two seconds late. A task function may run for hours: then one reading in
# fifteen seconds is enough to see its end.
FIRST_WAIT_SECONDS, LAST_WAIT_SECONDS, SLOWER = 2.0, 15.0, 1.5
# Only a commit itself says when it was made, and on what. Commits never change, so each is read
# once, the newest first: after some readings the page knows all of a long workflow. Eight at once
# double the requests of a reading, and no more.
COMMITS_READ_MAX = 8
# Of one target. The picture has the newest forty of them; the rest are for details and --json. A
# browser loads all of them again whenever one fact of the page has changed.
COMMITS_MAX = 1000
KINDS: Mapping[known.CommitRole, str] = {
    known.CommitRole.PUBLICATION: "published",
    known.CommitRole.INPUT: "root",
    known.CommitRole.OTHER: "other",
    known.CommitRole.FENCE: "other",
    known.CommitRole.FOREIGN: "foreign",
}
NOT_KNOWN = "not known"


@dataclass(slots=True)
class Watcher:
    """One workflow that a page follows; `wait` is the pause before the next reading."""

    tools: InspectionTools
    question: Question
    title: str
    masked: Callable[[str], str]
    """Takes secrets out of a text."""
    wait: float = FIRST_WAIT_SECONDS
    page: PageView | None = None
    _history: known.AttemptHistory | None = None
    _read: dict[str, CommitRecord | None] = field(default_factory=dict[str, CommitRecord | None])

    async def read(self) -> PageView:
        """Ask once. The first reading raises what goes wrong, because nothing can be shown yet."""
        history, notice = await self._look()
        if not notice:
            self._history = history
            await self._read_staged(history)
        staged = {commit: found for commit, found in self._read.items() if found is not None}
        read_at = self.tools.clock.now().timestamp()
        page = page_of(history, self.title, staged, read_at)
        if notice:  # nothing proves an end that was not read whole
            page = replace(page, notice=notice, live=True)
        page = views.without_secrets(page, self.masked)
        changed = self.page is None or replace(page, read_at=self.page.read_at) != self.page
        if changed:
            # What is shown under a notice is as old as the last whole reading.
            before = self.page.read_at if notice and self.page else read_at
            self.page = replace(page, read_at=before)
        self.wait = FIRST_WAIT_SECONDS if changed else min(self.wait * SLOWER, LAST_WAIT_SECONDS)
        assert self.page is not None, "set above"
        return self.page

    async def _look(self) -> tuple[known.AttemptHistory, str]:
        """The newest whole history, and what kept this reading from being one."""
        before = self._history
        try:
            found = await gather(self.tools, self.question)
        except (ServiceError, known.NowhereToLookError) as error:
            if before is None:
                raise
            return before, f"{error} What is below was read before that."
        # As many gaps as before are no outage: a listing that is too long has one in each reading.
        if before is not None and len(found.unanswered) > len(before.unanswered):
            why = " ".join(found.unanswered)
            # Of each workflow what Conductor said this time, as far as it answered.
            now = {each.workflow_id: each for each in found.workflows if each.status is not None}
            newer = tuple(now.get(each.workflow_id, each) for each in before.workflows)
            return replace(before, workflows=newer), f"{why} What is below was read before that."
        return found, ""

    async def _read_staged(self, history: known.AttemptHistory) -> None:
        """Read the newest staged commits that were not read yet."""
        not_read = dict(self._not_read(history))
        for commit, repository in list(not_read.items())[:COMMITS_READ_MAX]:
            try:
                self._read[commit] = await self.tools.lakefs.commits.read(repository, commit)
            except MissingError:
                self._read[commit] = None
            except ServiceError:
                return  # the next reading tries again

    def _not_read(self, history: known.AttemptHistory) -> Iterator[tuple[CommitId, RepositoryId]]:
        where = {each.repository for each in history.branches}
        for task in reversed(history.tasks):
            for attempt in reversed(task.attempts):
                left = next((each.repository for each in attempt.branches), None)
                repository = left or (next(iter(where)) if len(where) == 1 else None)
                if repository is None or attempt.staged is None:
                    continue
                if attempt.staged not in self._read:
                    yield attempt.staged, repository


def page_of(
    history: known.AttemptHistory, title: str, staged: Mapping[str, CommitRecord], read_at: float
) -> PageView:
    """The page of a history; `staged` has the staged commits, as far as they are read."""
    # Another look may find more: a workflow goes on, or a service did not answer.
    live = bool(history.unanswered) or any(
        each.status is None or not each.status.is_terminal for each in history.workflows
    )
    attempts = [each for task in history.tasks for each in task.attempts]
    kept = [each for task in history.tasks for each in task.decisions]
    tags: dict[str, tuple[str, ...]] = {}
    for tag in (*kept, *(each.replaced for each in attempts if each.replaced)):
        tags[tag.commit] = (*tags.get(tag.commit, ()), tag.tag)
    owners: dict[str, str] = {
        record.commit: each.task_id for each in attempts for record in each.publications
    }
    scene = _Scene(history, staged, tags, owners).view()
    return PageView(title, (scene,), live, read_at)


@dataclass(frozen=True, slots=True)
class _Scene:
    """A history with its staged commits; by commit, tags of ours and the attempt that made it."""

    history: known.AttemptHistory
    staged: Mapping[str, CommitRecord]
    tags: Mapping[str, tuple[str, ...]]
    owners: Mapping[str, str]

    def view(self) -> views.SceneView:
        """Everything."""
        history = self.history
        workflows = tuple(map(self._workflow, history.workflows))
        statuses = {each.status for each in workflows}
        return views.SceneView(
            title="",  # the workflow is named below, and the page has its name
            status=statuses.pop() if len(statuses) == 1 else "",
            clock="utc",
            missing=history.missing,
            workflows=workflows,
            runs=tuple(self._runs()),
            attempts=tuple(
                self._attempt(task, each) for task in history.tasks for each in task.attempts
            ),
            repositories=tuple(self._repositories()),
        )

    def _workflow(self, facts: known.WorkflowFacts) -> views.WorkflowView:
        tasks = [each for each in self.history.tasks if each.workflow_id == facts.workflow_id]
        return views.WorkflowView(
            id=facts.workflow_id,
            name=facts.workflow_id,
            status=facts.status or NOT_KNOWN,
            reason=facts.reason,
            tasks=tuple(
                views.TaskView(
                    each.name,
                    known.newest(each.attempts).status or NOT_KNOWN,
                    len(each.attempts),
                    known.decision_state(each),
                )
                for each in tasks
            ),
            children=facts.children,
        )

    def _attempt(
        self, task: known.TaskHistory, attempt: known.AttemptEvidence
    ) -> views.AttemptView:
        refs = {
            "task_id": attempt.task_id,
            "executions": " ".join(attempt.executions),
            "input": attempt.input_ref or "",
            "output": attempt.output_ref or "",
        }
        row, status = attempt.row, attempt.status
        return views.AttemptView(
            id=attempt.task_id,
            workflow=task.workflow_id,
            task=task.name,
            number=attempt.number,
            status=status or NOT_KNOWN,
            worker=row.snapshot.worker_id if row else None,
            came_to=known.how_far(attempt),
            code=attempt.code,
            reason=attempt.reason or None,
            # Without a row no server says whether it still runs, so no bar grows.
            ended=status is None or status.is_terminal,
            steps=tuple(self._steps(attempt)),
            refs={name: full for name, full in refs.items() if full},
            left=tuple(
                left.tag if isinstance(left, known.LeftTag) else left.branch
                for left in attempt.leftovers
            ),
        )

    def _steps(self, attempt: known.AttemptEvidence) -> Iterator[views.StepView]:
        """Every step in order.

        A staged commit proves that files were there and a task function had ended. No other step
        proves one before it: a retry publishes what another attempt staged, and adopts what it
        published.
        """
        snapshot = attempt.row.snapshot if attempt.row else None
        began, commit = attempt.began, attempt.staged
        published = attempt.publications[0] if attempt.publications else None
        seen = {
            Step.QUEUED: snapshot is not None,
            Step.POLLED: began is not None or attempt.was_polled,
            Step.RAN: attempt.function_failed,
            Step.STAGED: commit is not None,
            Step.DECIDED: attempt.decided,
            Step.PUBLISHED: published is not None or attempt.replaced is not None,
            Step.ENDED: attempt.status is not None and attempt.status.is_terminal,
        }
        follows = {
            Step.INPUT: attempt.function_failed or bool(attempt.checkpoints) or commit is not None,
            Step.RAN: commit is not None,
        }
        times = {
            Step.QUEUED: _seconds(snapshot.scheduled_time) if snapshot else None,
            Step.POLLED: began.timestamp() if began else None,
            Step.STAGED: _made_at(self.staged.get(commit or "")),
            Step.PUBLISHED: _made_at(published),
            Step.ENDED: _seconds(attempt.ended_at),
        }
        refs = {
            Step.STAGED: commit,
            Step.DECIDED: commit if attempt.decided else None,
            Step.PUBLISHED: published.commit if published else None,
            Step.ENDED: attempt.output_ref,
        }
        for step in Step:
            known_by = Seen.SEEN if seen.get(step) else Seen.NOT_SEEN
            if known_by is Seen.NOT_SEEN and follows.get(step):
                known_by = Seen.FOLLOWS
            yield views.StepView(step, known_by, times.get(step), refs.get(step))

    def _repositories(self) -> Iterator[views.RepositoryView]:
        """Targets and runs as they were read, and beside them a branch for each staged commit."""
        for name in dict.fromkeys(branch.repository for branch in self.history.branches):
            read = [each for each in self.history.branches if each.repository == name]
            branches = list(map(self._branch, read))
            shown = {commit.id for branch in branches for commit in branch.commits}
            omitted = sum(max(0, len(each.commits) - COMMITS_MAX) for each in read)
            aside = [each for each in self._staged() if each.commits[0].id not in shown]
            yield views.RepositoryView(name, (*branches, *reversed(aside)), omitted)

    def _branch(self, branch: known.BranchHistory) -> views.BranchView:
        roles = list(self.history.roles(branch))[:COMMITS_MAX]
        commits = tuple(self._commit(record, role) for record, role in roles)
        return views.BranchView(branch.branch, commits, not _is_of_run(branch))

    def _commit(self, record: CommitRecord, role: known.CommitRole) -> views.CommitView:
        said = record.metadata
        label = ""
        if role is known.CommitRole.PUBLICATION:
            task = known.TaskHistory(said.get(LOGICAL_TASK_KEY, ""))
            label = f"{task.name} #{attempt_number(said)}"
        return views.CommitView(
            id=record.commit,
            parents=tuple(record.parents),
            kind=KINDS[role],
            label=label,
            message=record.message,
            staged=said.get(STAGING_COMMIT, ""),
            tags=self.tags.get(record.commit, ()),
            at=_made_at(record),
            attempt=self.owners.get(record.commit),
        )

    def _staged(self) -> Iterator[views.BranchView]:
        """Each staged commit whose parent is known, on a branch of its own.

        A staging branch begins at the input and gets one commit, so its parent need not be read
        where Conductor knows the input.
        """
        for task in self.history.tasks:
            for attempt in task.attempts:
                record = self.staged.get(attempt.staged or "")
                parents = tuple(record.parents) if record else (attempt.input_ref,)
                if attempt.staged is None or None in parents:
                    continue
                commit = views.CommitView(
                    id=attempt.staged,
                    parents=tuple(str(each) for each in parents),
                    kind="staged",
                    label=f"{task.name} #{attempt.number}",
                    tags=self.tags.get(attempt.staged, ()),
                    at=_made_at(record),
                    attempt=attempt.task_id,
                )
                yield views.BranchView(f"staged by {commit.label}", (commit,))

    def _runs(self) -> Iterator[views.RunView]:
        """Each run that a task of these workflows has begun, as its row says."""
        statuses = {each.workflow_id: each.status for each in self.history.workflows}
        seen: set[str] = set()
        for task in self.history.tasks:
            for attempt in task.attempts:
                run = None if attempt.row is None else run_begun_by(attempt.row)
                if run is not None and run.key not in seen:
                    seen.add(run.key)
                    status = statuses.get(task.workflow_id)
                    yield self._run(run, is_over=status is not None and status.is_terminal)

    def _run(self, run: RunReference, *, is_over: bool) -> views.RunView:
        branches = [each for each in self.history.branches if each.repository == run.repository]
        on_targets = (
            record for each in branches if not _is_of_run(each) for record in each.commits
        )
        publication = next(
            (each.commit for each in on_targets if each.metadata.get(RUN) == run.key), None
        )
        if publication is not None:
            state = RunState.PUBLISHED
        elif any(key_of_run(each.branch) == run.key for each in branches):
            state = RunState.HELD if is_over else RunState.OPEN
        else:
            state = RunState.GONE
        target = f"{run.repository}/{run.branch}"
        return views.RunView(run.key, run.run_branch, target, state, publication)


def _is_of_run(branch: known.BranchHistory) -> bool:
    return branch.branch.startswith(RUN_BRANCH_PREFIX)


def _made_at(record: CommitRecord | None) -> float | None:
    return None if record is None else float(record.created_at)


def _seconds(milliseconds: int | None) -> float | None:
    return milliseconds / 1000 if milliseconds else None
