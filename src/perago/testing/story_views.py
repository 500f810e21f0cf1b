"""How a story is shown: lines for people, JSON, and the views of the page."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

from perago.app.page import model
from perago.domain.commit_metadata import LOGICAL_TASK_KEY, STAGING_COMMIT, TASK_ID
from perago.domain.lakefs import CommitId
from perago.domain.names import RUN_BRANCH_PREFIX
from perago.domain.text import plain
from perago.ports.conductor import WorkflowRecord
from perago.ports.workspace import Phase
from perago.testing.story import (
    AttemptStory,
    BranchStory,
    Event,
    EventKind,
    RepositoryStory,
    Story,
    commit_kind,
)

SCHEMA = "perago.story/1"
SHORT = 8  # digits of a commit id: two commits of one test do not share them
# Phases of every attempt: as lines they would hide what differs between two.
QUIET_PHASES = frozenset(
    {"started", "ended", "fenced", "pre-checked", "post-checked", "checked", "cleaned"}
)
# Which event shows a step. The kit has no event for the time in the queue.
STEP_OF = {
    Phase.STARTED: model.Step.POLLED,
    Phase.MATERIALISED: model.Step.INPUT,
    Phase.FUNCTION_ENDED: model.Step.RAN,
    Phase.STAGED: model.Step.STAGED,
    Phase.DECIDED: model.Step.DECIDED,
    Phase.PUBLISHED: model.Step.PUBLISHED,
    Phase.COMPLETED: model.Step.ENDED,
}
RUNNING = "RUNNING"


def story_lines(story: Story) -> Iterator[str]:
    """Every line."""
    for name, record in story.workflows:
        reason = f": {plain(record.reason)}" if record.reason else ""
        yield f"workflow {name} {record.status}{reason}"
    for attempt in story.attempts:
        yield from attempt_lines(attempt)
    for repository in story.repositories:
        yield from _commit_lines(repository, story)


def attempt_lines(attempt: AttemptStory) -> Iterator[str]:
    """One attempt: a headline, then what happened in it."""
    end = f"{attempt.status} {attempt.recorded}".strip()
    yield f"{attempt.reference} attempt {attempt.number} ({attempt.worker}): {end}"
    for event in attempt.events:
        if event.kind is EventKind.END or event.text in QUIET_PHASES:
            continue
        yield f"  {event.seconds:9.3f}s  {_event_text(event)}"
    if attempt.reason:
        yield f"             reason: {plain(attempt.reason)}"


def _commit_lines(repository: RepositoryStory, story: Story) -> Iterator[str]:
    """The branches with their commits, newest first; staging branches by their own commits."""
    main = repository.branch("main")
    shared = {commit.commit for commit in main.commits} if main else set[str]()
    for branch in sorted(repository.branches, key=lambda branch: branch.name != "main"):
        yield f"{repository.name} {branch.name}"
        for each in commits_of(branch, repository, story):
            if branch.name != "main" and each.id in shared:
                yield f"  o {each.id[:SHORT]}"
                break
            made = f"{each.task} attempt {each.attempt}"
            said = made if each.attempt else plain(each.message)
            tags = "".join(f" <{tag}>" for tag in each.tags)
            yield f"  * {each.id[:SHORT]} {each.kind:9} {said}{tags}"


def _event_text(event: Event) -> str:
    # The reason has a line of its own, below.
    shown = {key: value for key, value in event.facts.items() if key != "reason"}
    facts = ", ".join(f"{key} {_short(value)}" for key, value in shown.items())
    mark = {EventKind.INJECTED: "!! ", EventKind.OUTPUT: "| "}.get(event.kind, "")
    return f"{mark}{plain(event.text)}{': ' + plain(facts) if facts else ''}"


def _short(value: object) -> str:
    text = str(value)
    is_commit = len(text) == 64 and set(text) <= set("0123456789abcdef")  # noqa: PLR2004 - SHA-256
    return text[:SHORT] if is_commit else text


def story_document(story: Story) -> dict[str, object]:
    """Workflows, attempts, repositories."""
    workflows: list[dict[str, object]] = [
        {
            "name": name,
            "id": record.workflow_id,
            "status": str(record.status),
            "reason": record.reason,
            "rows": [
                {
                    "reference": row.snapshot.reference_name,
                    "type": row.snapshot.task_type,
                    "status": str(row.snapshot.status),
                    "retry": row.snapshot.retry_count,
                }
                for row in record.attempts
            ],
        }
        for name, record in story.workflows
    ]
    return {
        "schema": SCHEMA,
        "workflows": workflows,
        "attempts": [_attempt_document(attempt) for attempt in story.attempts],
        "repositories": [
            {
                "name": repository.name,
                "branches": [
                    {
                        "name": branch.name,
                        "commits": [asdict(each) for each in commits_of(branch, repository, story)],
                    }
                    for branch in repository.branches
                ],
            }
            for repository in story.repositories
        ],
    }


def _attempt_document(attempt: AttemptStory) -> dict[str, object]:
    return {
        "worker": attempt.worker,
        "task": attempt.task,
        "reference": attempt.reference,
        "workflow": attempt.workflow_id,
        "number": attempt.number,
        "status": str(attempt.status),
        "recorded": str(attempt.recorded),
        "reason": attempt.reason,
        "events": [
            {"seconds": each.at, "kind": each.kind, "text": each.text, "facts": each.facts}
            for each in _events(attempt)
        ],
    }


def _events(attempt: AttemptStory) -> tuple[model.EventView, ...]:
    return tuple(
        model.EventView(
            round(each.seconds, 3),
            str(each.kind),
            each.text,
            {key: str(value) for key, value in each.facts.items()},
        )
        for each in attempt.events
    )


def scene_of(
    story: Story, title: str, policy: str, *, status: str = RUNNING, problems: Sequence[str] = ()
) -> model.SceneView:
    """One run of a workflow under one policy."""
    repositories = tuple(repository_of(each, story) for each in story.repositories)
    return model.SceneView(
        title=title,
        status=status,
        clock="seconds",
        policy=policy,
        problems=tuple(problems),
        workflows=tuple(_workflow(name, record) for name, record in story.workflows),
        runs=tuple(run for each in repositories for run in _runs(each)),
        attempts=tuple(_attempt(each, number) for number, each in enumerate(story.attempts)),
        repositories=repositories,
    )


def _workflow(name: str, record: WorkflowRecord) -> model.WorkflowView:
    tasks: dict[str, model.TaskView] = {}
    for row in record.attempts:
        reference = row.snapshot.reference_name
        count = tasks[reference].attempts + 1 if reference in tasks else 1
        tasks[reference] = model.TaskView(reference, str(row.snapshot.status), count)
    return model.WorkflowView(
        id=record.workflow_id,
        name=name,
        status=str(record.status),
        reason=record.reason or None,
        tasks=tuple(tasks.values()),
    )


def _attempt(attempt: AttemptStory, number: int) -> model.AttemptView:
    events = _events(attempt)
    # What the kit did to an attempt that recorded nothing, such as its death.
    faults = [each.text for each in events if each.kind == EventKind.INJECTED]
    facts = [each.facts for each in events]
    ids = ("task_id", "execution_key")
    return model.AttemptView(
        id=f"{attempt.reference}-{number}",
        workflow=attempt.workflow_id,
        task=attempt.reference,
        number=attempt.number,
        status=attempt.status,
        worker=attempt.worker,
        came_to=attempt.recorded or (faults[-1] if faults else ""),
        reason=attempt.reason or None,
        ended=attempt.status != RUNNING,
        steps=tuple(_steps(events)),
        events=events,
        refs={name: each[name] for each in facts for name in ids if name in each},
    )


def _steps(events: Sequence[model.EventView]) -> Iterator[model.StepView]:
    """Every step, with the last event that shows it: the kit sees all, so no step follows."""
    last = {
        STEP_OF[Phase(event.text)]: event
        for event in events
        if event.kind == EventKind.PHASE and event.text in STEP_OF
    }
    for step in model.Step:
        event = last.get(step)
        if event is None:
            yield model.StepView(step, model.Seen.NOT_SEEN)
        else:
            ref = event.facts.get("commit") or event.facts.get("ref")
            yield model.StepView(step, model.Seen.SEEN, event.at, ref)


def repository_of(repository: RepositoryStory, story: Story) -> model.RepositoryView:
    """One repository of a story."""
    branches = tuple(_branch(each, repository, story) for each in repository.branches)
    return model.RepositoryView(repository.name, branches)


def _branch(branch: BranchStory, repository: RepositoryStory, story: Story) -> model.BranchView:
    commits = tuple(
        model.CommitView(
            id=each.id,
            parents=each.parents,
            kind=each.kind,
            label=f"{each.task} #{each.attempt}" if each.task and each.attempt else each.task,
            message=each.message,
            staged=each.staged,
            tags=each.tags,
        )
        for each in commits_of(branch, repository, story)
    )
    return model.BranchView(branch.name, commits, branch.name == "main")


def _runs(repository: model.RepositoryView) -> Iterator[model.RunView]:
    """Held runs have their branch, a published one is the second parent of a commit on main."""
    for branch in repository.branches:
        target = f"{repository.name}/main"
        if branch.name.startswith(RUN_BRANCH_PREFIX):
            key = branch.name.removeprefix(RUN_BRANCH_PREFIX)
            yield model.RunView(key, branch.name, target, model.RunState.HELD)
        if branch.is_target:
            for commit in branch.commits:
                if len(commit.parents) > 1:
                    yield model.RunView("", "", target, model.RunState.PUBLISHED, commit.id)


@dataclass(frozen=True, slots=True)
class ShownCommit:
    """A commit, and what it is to the attempts of the story."""

    id: CommitId
    parents: tuple[CommitId, ...]
    kind: str
    task: str
    attempt: int | None  # the number of the attempt that made it
    message: str
    staged: str
    """The staged commit that a publication brought to the target, or nothing."""
    tags: tuple[str, ...]


def commits_of(
    branch: BranchStory, repository: RepositoryStory, story: Story
) -> Iterator[ShownCommit]:
    """The commits of a branch, newest first."""
    accepted = story.accepted_commits()
    attempts = {attempt.task_id: attempt.number for attempt in reversed(story.attempts)}
    for commit in branch.commits:
        # The reference name stands second in the key of a task.
        _, _, behind = commit.metadata.get(LOGICAL_TASK_KEY, "").partition("/")
        yield ShownCommit(
            id=commit.commit,
            parents=commit.parents,
            kind=commit_kind(commit, accepted),
            task=behind.partition("/")[0],
            attempt=attempts.get(commit.metadata.get(TASK_ID, "")),
            message=commit.message,
            staged=commit.metadata.get(STAGING_COMMIT, ""),
            tags=tuple(repository.tags.get(commit.commit, ())),
        )
