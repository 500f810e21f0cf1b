"""What the servers know of a workflow, as the page shows it: a history becomes a `PageView`.

Nothing is asked and nothing is judged here: `perago.domain.attempt_history` says how far an attempt
came. A step without proof is not seen, and a step without a time has none.
"""

from collections.abc import Iterator, Mapping
from typing import cast

from perago.app.page.model import (
    AttemptView,
    BranchView,
    CommitView,
    PageView,
    RepositoryView,
    RunState,
    RunView,
    SceneView,
    Seen,
    Step,
    StepView,
    TaskView,
    WorkflowView,
)
from perago.app.runs.begin import BEGIN_TASK
from perago.domain import attempt_history as known
from perago.domain.commit_metadata import (
    LOGICAL_TASK_KEY,
    RUN,
    STAGING_COMMIT,
    attempt_number,
)
from perago.domain.logical_execution import CommitRecord
from perago.domain.names import RUN_BRANCH_PREFIX
from perago.domain.run import key_of_run

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


def page_of(
    history: known.AttemptHistory, title: str, staged: Mapping[str, CommitRecord], read_at: float
) -> PageView:
    """The page of a history; `staged` has the staged commits, as far as they are read."""
    return PageView(title, (scene_of(history, staged),), is_open(history), read_at)


def is_open(history: known.AttemptHistory) -> bool:
    """Whether another look may find more: a workflow goes on, or a service did not answer."""
    return bool(history.unanswered) or any(
        each.status is None or not each.status.is_terminal for each in history.workflows
    )


def scene_of(history: known.AttemptHistory, staged: Mapping[str, CommitRecord]) -> SceneView:
    """One scene with everything."""
    workflows = tuple(_workflow(history, each) for each in history.workflows)
    statuses = {each.status for each in workflows}
    return SceneView(
        title="",  # the workflow is named below, and the page has its name
        status=statuses.pop() if len(statuses) == 1 else "",
        clock="utc",
        missing=history.missing,
        workflows=workflows,
        runs=tuple(_runs(history)),
        attempts=tuple(
            _attempt(task, each, staged) for task in history.tasks for each in task.attempts
        ),
        repositories=tuple(_repositories(history, staged)),
    )


def _workflow(history: known.AttemptHistory, facts: known.WorkflowFacts) -> WorkflowView:
    tasks = [each for each in history.tasks if each.workflow_id == facts.workflow_id]
    return WorkflowView(
        id=facts.workflow_id,
        name=facts.workflow_id,
        status=facts.status or NOT_KNOWN,
        reason=facts.reason,
        tasks=tuple(
            TaskView(
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
    task: known.TaskHistory, attempt: known.AttemptEvidence, staged: Mapping[str, CommitRecord]
) -> AttemptView:
    refs = {
        "task_id": attempt.task_id,
        "executions": " ".join(attempt.executions),
        "input": attempt.input_ref or "",
        "output": attempt.output_ref or "",
    }
    row, status = attempt.row, attempt.status
    return AttemptView(
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
        steps=tuple(_steps(attempt, staged)),
        refs={name: full for name, full in refs.items() if full},
        left=tuple(map(_left, attempt.leftovers)),
    )


def _left(left: known.LeftTag | known.LeftBranch) -> str:
    return left.tag if isinstance(left, known.LeftTag) else left.branch


def _steps(
    attempt: known.AttemptEvidence, staged: Mapping[str, CommitRecord]
) -> Iterator[StepView]:
    """Every step in order.

    A staged commit proves that files were there and a task function had ended. No other step proves
    one before it: a retry publishes what another attempt staged, and adopts what it published.
    """
    snapshot = attempt.row.snapshot if attempt.row else None
    began, commit = attempt.began, attempt.staged
    published = attempt.publications[0] if attempt.publications else None
    ended = attempt.status is not None and attempt.status.is_terminal
    seen = {
        Step.QUEUED: snapshot is not None,
        Step.POLLED: began is not None or attempt.was_polled,
        Step.RAN: attempt.function_failed,
        Step.STAGED: commit is not None,
        Step.DECIDED: attempt.decided,
        Step.PUBLISHED: published is not None or attempt.replaced is not None,
        Step.ENDED: ended,
    }
    follows = {
        Step.INPUT: attempt.function_failed or bool(attempt.checkpoints) or commit is not None,
        Step.RAN: commit is not None,
    }
    times = {
        Step.QUEUED: _seconds(snapshot.scheduled_time) if snapshot else None,
        Step.POLLED: began.timestamp() if began else None,
        Step.STAGED: _made_at(staged.get(commit or "")),
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
        yield StepView(step, known_by, times.get(step), refs.get(step))


def _made_at(record: CommitRecord | None) -> float | None:
    return None if record is None else float(record.created_at)


def _seconds(milliseconds: int | None) -> float | None:
    return milliseconds / 1000 if milliseconds else None


def _repositories(
    history: known.AttemptHistory, staged: Mapping[str, CommitRecord]
) -> Iterator[RepositoryView]:
    """Targets and runs as they were read, and beside them a branch for each staged commit."""
    names = dict.fromkeys(branch.repository for branch in history.branches)
    tags = _tags(history)
    owners: dict[str, str] = {
        record.commit: attempt.task_id
        for task in history.tasks
        for attempt in task.attempts
        for record in attempt.publications
    }
    for name in names:
        branches = [
            _branch(history, branch, tags, owners)
            for branch in history.branches
            if branch.repository == name
        ]
        cut = sum(len(each.commits) for each in history.branches if each.repository == name)
        shown = {commit.id for branch in branches for commit in branch.commits}
        omitted = cut - sum(len(branch.commits) for branch in branches)
        aside = [each for each in _staged(history, tags, staged) if each.commits[0].id not in shown]
        yield RepositoryView(name, (*branches, *reversed(aside)), omitted)


def _tags(history: known.AttemptHistory) -> dict[str, tuple[str, ...]]:
    """Decisions and kept heads by their commit."""
    found: dict[str, tuple[str, ...]] = {}
    left = [each for task in history.tasks for each in task.decisions]
    left += [each.replaced for task in history.tasks for each in task.attempts if each.replaced]
    for tag in left:
        found[tag.commit] = (*found.get(tag.commit, ()), tag.tag)
    return found


def _branch(
    history: known.AttemptHistory,
    branch: known.BranchHistory,
    tags: Mapping[str, tuple[str, ...]],
    owners: Mapping[str, str],
) -> BranchView:
    roles = list(history.roles(branch))[:COMMITS_MAX]
    commits = tuple(_commit(record, role, tags, owners) for record, role in roles)
    return BranchView(branch.branch, commits, not branch.branch.startswith(RUN_BRANCH_PREFIX))


def _commit(
    record: CommitRecord,
    role: known.CommitRole,
    tags: Mapping[str, tuple[str, ...]],
    owners: Mapping[str, str],
) -> CommitView:
    said = record.metadata
    label = ""
    if role is known.CommitRole.PUBLICATION:
        label = f"{_reference(said.get(LOGICAL_TASK_KEY, ''))} #{attempt_number(said)}"
    return CommitView(
        id=record.commit,
        parents=tuple(record.parents),
        kind=KINDS[role],
        label=label,
        message=record.message,
        staged=said.get(STAGING_COMMIT, ""),
        tags=tags.get(record.commit, ()),
        at=_made_at(record),
        attempt=owners.get(record.commit),
    )


def _reference(key: str) -> str:
    return known.TaskHistory(key).name


def _staged(
    history: known.AttemptHistory,
    tags: Mapping[str, tuple[str, ...]],
    staged: Mapping[str, CommitRecord],
) -> Iterator[BranchView]:
    """Each staged commit whose parent is known, on a branch of its own.

    A staging branch begins at the input and gets one commit, so its parent need not be read where
    Conductor knows the input.
    """
    for task in history.tasks:
        for attempt in task.attempts:
            record = staged.get(attempt.staged or "")
            parents = tuple(record.parents) if record else (attempt.input_ref,)
            if attempt.staged is None or None in parents:
                continue
            commit = CommitView(
                id=attempt.staged,
                parents=tuple(str(each) for each in parents),
                kind="staged",
                label=f"{task.name} #{attempt.number}",
                tags=tags.get(attempt.staged, ()),
                at=_made_at(record),
                attempt=attempt.task_id,
            )
            yield BranchView(f"staged by {commit.label}", (commit,))


def _runs(history: known.AttemptHistory) -> Iterator[RunView]:
    """Each run that a task of these workflows has begun, as its row says."""
    statuses = {each.workflow_id: each.status for each in history.workflows}
    seen: set[str] = set()
    for task in history.tasks:
        for attempt in task.attempts:
            run = _run_in(attempt)
            key = run.get("key", "")
            if not key or key in seen:
                continue
            seen.add(key)
            status = statuses.get(task.workflow_id)
            is_over = status is not None and status.is_terminal
            yield _run(history, run, is_over=is_over)


def _run_in(attempt: known.AttemptEvidence) -> dict[str, str]:
    """What `perago.begin` put out; empty for every other attempt."""
    if attempt.row is None or attempt.row.snapshot.task_type != BEGIN_TASK.name:
        return {}
    result = attempt.row.output_data.get("result")
    run = cast("Mapping[str, object]", result).get("run") if isinstance(result, Mapping) else None
    if not isinstance(run, Mapping):
        return {}
    return {name: str(value) for name, value in cast("Mapping[str, object]", run).items()}


def _run(history: known.AttemptHistory, run: Mapping[str, str], *, is_over: bool) -> RunView:
    repository, key = run.get("repository", ""), run["key"]
    branches = [each for each in history.branches if each.repository == repository]
    publication = next(
        (
            record.commit
            for branch in branches
            if not branch.branch.startswith(RUN_BRANCH_PREFIX)
            for record in branch.commits
            if record.metadata.get(RUN) == key
        ),
        None,
    )
    is_there = any(key_of_run(branch.branch) == key for branch in branches)
    if publication is not None:
        state = RunState.PUBLISHED
    elif is_there:
        state = RunState.HELD if is_over else RunState.OPEN
    else:
        state = RunState.GONE
    target = f"{repository}/{run.get('branch', '')}"
    return RunView(key, run.get("run_branch", ""), target, state, publication)
