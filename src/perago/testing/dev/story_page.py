"""What `perago dev` knows of a run, as the page shows it: a document becomes a `PageView`.

The process that runs the workflow prints documents, so they are read here from plain JSON.
"""

from collections.abc import Iterator, Mapping

from perago.app.page.model import (
    AttemptView,
    BranchView,
    CommitView,
    EventView,
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
from perago.domain.names import RUN_BRANCH_PREFIX
from perago.ports.workspace import Phase
from perago.testing.definitions import as_list, as_object

# Which event shows a step. The kit has no event for the time in the queue.
STEP_OF = {
    Phase.STARTED: Step.POLLED,
    Phase.MATERIALISED: Step.INPUT,
    Phase.FUNCTION_ENDED: Step.RAN,
    Phase.STAGED: Step.STAGED,
    Phase.DECIDED: Step.DECIDED,
    Phase.PUBLISHED: Step.PUBLISHED,
    Phase.COMPLETED: Step.ENDED,
}
RUNNING = "RUNNING"


def page_of(document: Mapping[str, object], *, live: bool = True) -> PageView:
    """The page of a document of `perago dev`."""
    scenes = map(as_object, as_list(document.get("scenes")))
    return PageView(
        title=str(document.get("title", "perago dev")),
        scenes=tuple(scene_of(scene) for scene in scenes),
        live=live,
        error=str(document.get("error") or ""),
    )


def scene_of(scene: Mapping[str, object]) -> SceneView:
    """One run of a workflow under one policy."""
    story = as_object(scene.get("story"))
    repositories = tuple(
        repository_of(as_object(each)) for each in as_list(story.get("repositories"))
    )
    return SceneView(
        title=_text(scene, "title"),
        status=_text(scene, "status"),
        clock="seconds",
        policy=_text(scene, "policy"),
        problems=tuple(map(str, as_list(scene.get("broken")))),
        workflows=tuple(_workflow(as_object(each)) for each in as_list(story.get("workflows"))),
        runs=tuple(run for each in repositories for run in _runs(each)),
        attempts=tuple(
            _attempt(as_object(each), number)
            for number, each in enumerate(as_list(story.get("attempts")))
        ),
        repositories=repositories,
    )


def _text(found: Mapping[str, object], name: str) -> str:
    value = found.get(name)
    return "" if value is None else str(value)


def _workflow(found: Mapping[str, object]) -> WorkflowView:
    tasks: dict[str, TaskView] = {}
    for row in map(as_object, as_list(found.get("rows"))):
        name = _text(row, "reference")
        before = tasks.get(name)
        count = before.attempts + 1 if before else 1
        tasks[name] = TaskView(name, _text(row, "status"), count)
    return WorkflowView(
        id=_text(found, "id"),
        name=_text(found, "name"),
        status=_text(found, "status"),
        reason=_text(found, "reason") or None,
        tasks=tuple(tasks.values()),
    )


def _attempt(found: Mapping[str, object], number: int) -> AttemptView:
    events = tuple(_event(as_object(each)) for each in as_list(found.get("events")))
    status = _text(found, "status")
    return AttemptView(
        id=f"{_text(found, 'reference')}-{number}",
        workflow=_text(found, "workflow"),
        task=_text(found, "reference"),
        number=_number(found.get("number")),
        status=status,
        worker=_text(found, "worker") or None,
        came_to=_text(found, "recorded") or _fault(events),
        reason=_text(found, "reason") or None,
        ended=status != RUNNING,
        steps=tuple(_steps(events)),
        events=events,
        refs=_ids(events),
    )


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0


def _event(found: Mapping[str, object]) -> EventView:
    seconds = found.get("seconds")
    facts = {key: str(value) for key, value in as_object(found.get("facts")).items()}
    at = float(seconds) if isinstance(seconds, int | float) else 0.0
    return EventView(at, _text(found, "kind"), _text(found, "text"), facts)


def _steps(events: tuple[EventView, ...]) -> Iterator[StepView]:
    """Every step, with the last event that shows it: the kit sees all, so no step follows."""
    last = {
        STEP_OF[Phase(event.text)]: event
        for event in events
        if event.kind == "phase" and event.text in STEP_OF
    }
    for step in Step:
        event = last.get(step)
        if event is None:
            yield StepView(step, Seen.NOT_SEEN)
        else:
            ref = event.facts.get("commit") or event.facts.get("ref")
            yield StepView(step, Seen.SEEN, event.at, ref)


def _fault(events: tuple[EventView, ...]) -> str:
    """What the kit did to an attempt that recorded nothing, such as its death."""
    return next((each.text for each in reversed(events) if each.kind == "fault"), "")


def _ids(events: tuple[EventView, ...]) -> dict[str, str]:
    found: dict[str, str] = {}
    for event in events:
        for name in ("task_id", "execution_key"):
            if name in event.facts:
                found[name] = event.facts[name]
    return found


def repository_of(found: Mapping[str, object]) -> RepositoryView:
    """One repository of a story."""
    branches = tuple(_branch(as_object(each)) for each in as_list(found.get("branches")))
    return RepositoryView(_text(found, "name"), branches)


def _branch(found: Mapping[str, object]) -> BranchView:
    commits = tuple(_commit(as_object(each)) for each in as_list(found.get("commits")))
    name = _text(found, "name")
    return BranchView(name, commits, name == "main")


def _commit(found: Mapping[str, object]) -> CommitView:
    task, number = _text(found, "task"), found.get("attempt")
    return CommitView(
        id=_text(found, "id"),
        parents=tuple(map(str, as_list(found.get("parents")))),
        kind=_text(found, "kind"),
        label=f"{task} #{number}" if task and number else task,
        message=_text(found, "message"),
        staged=_text(found, "staged"),
        tags=tuple(map(str, as_list(found.get("tags")))),
    )


def _runs(repository: RepositoryView) -> Iterator[RunView]:
    """Held runs have their branch, a published one is the second parent of a commit on main."""
    for branch in repository.branches:
        if branch.name.startswith(RUN_BRANCH_PREFIX):
            key = branch.name.removeprefix(RUN_BRANCH_PREFIX)
            yield RunView(key, branch.name, f"{repository.name}/main", RunState.HELD)
        if branch.is_target:
            for commit in branch.commits:
                if len(commit.parents) > 1:
                    yield RunView(
                        "", "", f"{repository.name}/{branch.name}", RunState.PUBLISHED, commit.id
                    )
