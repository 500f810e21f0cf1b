"""The story of a run: what each attempt did, what is in the repositories, what must be true.

`AttemptStory` is one attempt in order: `StoryListener` reads the events that it emits, as the log
and the metrics of a worker do, and the kit adds what no attempt can tell: planned faults, the death
of its process, and what the task function printed. `WorkflowRun` is one started workflow as a test
looks at it. `tell_story` collects the story; `story_views` shows it.

`broken_invariants` says what a story must satisfy, whatever went wrong on the way: an accepted
publication is on its branch; another writer's commit is not lost; under `settled` a logical
execution published at most once, and nothing of an abandoned attempt is left. All of it holds for
every branch that a task of the story was given, not for `main` alone. A branch that is not a run's
has nothing of a run but the one commit that published it.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import cast, final

from perago.app.attempt.context import Attempt
from perago.app.telemetry.listeners import AttemptListener
from perago.domain import commit_metadata
from perago.domain.attempt import AttemptRecord, WorkflowStatus, as_mapping
from perago.domain.lakefs import CommitId, CommitRecord, RepositoryId
from perago.domain.run import key_of_run
from perago.ports.conductor import WorkflowRecord, Workflows
from perago.ports.installations import ConductorInstallation
from perago.ports.workspace import Phase
from perago.testing.definitions import published_workspace, target_of
from perago.testing.servers import Repository


class EventKind(StrEnum):
    """Where an event of an attempt comes from."""

    PHASE = "phase"
    INJECTED = "fault"
    OUTPUT = "output"
    END = "end"


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened, at the environment's seconds since its start."""

    seconds: float
    kind: EventKind
    text: str
    facts: Mapping[str, object] = field(default_factory=dict[str, object])


@dataclass(slots=True)
class AttemptStory:
    """One attempt of one task: who ran it, what happened, how it ended."""

    worker: str
    task: str
    reference: str
    workflow_id: str
    task_id: str
    number: int
    events: list[Event] = field(default_factory=list[Event])
    status: str = "RUNNING"
    recorded: str = ""
    reason: str | None = None
    output: Mapping[str, object] = field(default_factory=dict[str, object])

    @property
    def accepted(self) -> bool:
        """Whether Conductor counted its completion."""
        return self.status == "COMPLETED" and self.recorded in {"recorded", "acknowledged"}

    def phases(self) -> tuple[str, ...]:
        """The names of the phases it went through."""
        return tuple(event.text for event in self.events if event.kind is EventKind.PHASE)

    def facts_of(self, phase: Phase) -> Mapping[str, object]:
        """What the last event of a phase said; empty when it was not reached."""
        found = [
            event.facts
            for event in self.events
            if event.kind is EventKind.PHASE and event.text == phase
        ]
        return found[-1] if found else {}


def begin_story(worker: str, record: AttemptRecord, number: int) -> AttemptStory:
    """The empty story of an attempt that was just polled."""
    snapshot = record.snapshot
    return AttemptStory(
        worker=worker,
        task=snapshot.task_type,
        reference=snapshot.reference_name,
        workflow_id=snapshot.workflow_id,
        task_id=snapshot.task_id,
        number=number,
    )


@final
class StoryListener(AttemptListener):
    """Reads the events of one attempt into its story."""

    def __init__(
        self,
        story: AttemptStory,
        seconds: Callable[[], float],
        watchers: Sequence[Callable[[], None]],
    ) -> None:
        self.story = story
        self._seconds = seconds
        self._watchers = watchers

    def phase(
        self, attempt: Attempt, phase: Phase, facts: Mapping[str, object], seconds: float
    ) -> None:
        """Keep the event; the last one is the headline as well."""
        del attempt, seconds
        # A story is the same on memory and on real servers, so requests are not counted in it. The
        # reason has a line of its own.
        hidden = {"requests", "reason", "error"} if phase is Phase.ENDED else {"requests"}
        self.note(EventKind.PHASE, str(phase), {k: facts[k] for k in facts if k not in hidden})
        if phase is Phase.ENDED:
            self.story.status = str(facts["status"]).upper()
            self.story.recorded = str(facts["recorded"])
            self.story.reason = str(facts["reason"]) if "reason" in facts else None
            self.note(EventKind.END, self.story.status)

    def note(self, kind: EventKind, text: str, facts: Mapping[str, object] | None = None) -> None:
        """Keep what the kit saw itself."""
        self.story.events.append(Event(self._seconds(), kind, text, facts or {}))
        for seen in self._watchers:
            seen()


@final
@dataclass(frozen=True, slots=True)
class WorkflowRun:
    """Every method asks the server anew."""

    id: str
    name: str
    workflows: Workflows

    async def read(self) -> WorkflowRecord:
        """Status, input, output and all rows."""
        found = await self.workflows.read(self.id)
        assert found is not None, f"workflow {self.id} is gone"
        return found

    async def status(self) -> WorkflowStatus:
        """The status."""
        return (await self.read()).status

    async def output(self) -> Mapping[str, object]:
        """The workflow's output."""
        return (await self.read()).output_data

    async def attempts(self, reference: str | None = None) -> tuple[AttemptRecord, ...]:
        """The rows of one task, or of all, oldest first."""
        rows = (await self.read()).attempts
        return tuple(
            row for row in rows if reference is None or row.snapshot.reference_name == reference
        )

    async def result(self, reference: str) -> Mapping[str, object]:
        """What the accepted attempt of a task returned."""
        accepted = await self._accepted(reference)
        return cast("Mapping[str, object]", accepted.output_data["result"])

    async def published(self, reference: str) -> str:
        """The commit that the accepted attempt of a task reported."""
        return str(published_workspace(await self._accepted(reference))["ref"])

    async def _accepted(self, reference: str) -> AttemptRecord:
        rows = await self.attempts(reference)
        accepted = [row for row in rows if row.snapshot.status == "COMPLETED"]
        assert accepted, f"no attempt of {reference} completed: {[_ended(row) for row in rows]}"
        return accepted[-1]


def _ended(row: AttemptRecord) -> str:
    return f"{row.snapshot.status} {row.reason or ''}".strip()


@dataclass(frozen=True, slots=True)
class BranchStory:
    """One branch: its commits, newest first, and the names of tags on them."""

    name: str
    commits: tuple[CommitRecord, ...]


@dataclass(frozen=True, slots=True)
class RepositoryStory:
    """One repository as it is now."""

    id: str
    name: str
    branches: tuple[BranchStory, ...]
    tags: dict[str, list[str]]

    def branch(self, name: str) -> BranchStory | None:
        """A branch by its name."""
        return next((branch for branch in self.branches if branch.name == name), None)


@dataclass(frozen=True, slots=True)
class Story:
    """Everything an environment knows when asked."""

    workflows: tuple[tuple[str, WorkflowRecord], ...]
    attempts: tuple[AttemptStory, ...]
    repositories: tuple[RepositoryStory, ...]
    children: tuple[WorkflowRecord, ...] = ()

    @property
    def completed(self) -> bool:
        """Whether every workflow completed."""
        return all(record.status is WorkflowStatus.COMPLETED for _, record in self.workflows)

    @property
    def rows(self) -> Iterator[AttemptRecord]:
        """Every task row that there is, those of sub-workflows included."""
        for record in (*(record for _, record in self.workflows), *self.children):
            yield from record.attempts

    def accepted_commits(self) -> dict[str, str]:
        """The commits that Conductor accepted, each with the reference name of its task."""
        found: dict[str, str] = {}
        for row in self.rows:
            workspace = published_workspace(row)
            if row.snapshot.status == "COMPLETED" and workspace:
                found[str(workspace["ref"])] = row.snapshot.reference_name
        return found


def commit_kind(commit: CommitRecord, accepted: Iterable[str]) -> str:
    """What a commit is to the workflows: staged, published, abandoned, or of another writer."""
    # The commit of a fence has an owner, and is no task's work.
    if commit_metadata.PHASE not in commit.metadata:
        return "foreign" if commit.parents else "root"
    if commit.commit in set(accepted):
        return "published"  # also a staged commit that the target was relocated to
    return (
        "staged"
        if commit.metadata.get(commit_metadata.PHASE) == commit_metadata.TRY
        else "abandoned"
    )


async def tell_story(
    conductor: ConductorInstallation,
    repositories: Iterable[Repository],
    runs: Iterable[WorkflowRun],
    attempts: Sequence[AttemptStory],
) -> Story:
    """Read everything as it is now."""
    workflows = tuple([(run.name, await run.read()) for run in runs])
    stories = [await _tell_repository(repository) for repository in repositories]
    children = [child for _, record in workflows for child in await _children(conductor, record)]
    return Story(workflows, tuple(attempts), tuple(stories), tuple(children))


async def _children(
    conductor: ConductorInstallation, parent: WorkflowRecord
) -> list[WorkflowRecord]:
    """The sub-workflows of a workflow and theirs: their tasks publish as well."""
    found: list[WorkflowRecord] = []
    for row in parent.attempts:
        name = row.output_data.get("subWorkflowId")
        child = await conductor.workflows.read(str(name)) if name else None
        if child is not None:
            found += [child, *await _children(conductor, child)]
    return found


async def _tell_repository(repository: Repository) -> RepositoryStory:
    branches = [
        BranchStory(name, tuple(await repository.history(name)))
        for name in await repository.branches()
    ]
    tags: dict[str, list[str]] = {}
    for tag, commit in (await repository.tags()).items():
        tags.setdefault(commit, []).append(tag)
    shown = {commit.commit for branch in branches for commit in branch.commits}
    for tagged in [commit for commit in tags if commit not in shown]:
        # Decisions and relocated heads outlive their branches.
        history = await repository.history(tagged)
        branches.append(BranchStory(f"(tag) {tags[tagged][0]}", tuple(history)))
    return RepositoryStory(repository.id, repository.name, tuple(branches), tags)


def broken_invariants(
    story: Story,
    commits_of_others: Mapping[RepositoryId, Sequence[tuple[str, CommitId]]],
    *,
    settled: bool,
) -> Iterator[str]:
    """Every broken promise in words."""
    for repository in story.repositories:
        known = commits_of_others.get(RepositoryId(repository.id), ())
        yield from _lost_publications(repository, story)
        yield from _lost_commits(repository, known)
        if settled:
            for branch in _target_branches(repository, story):
                yield from _repeated_publications(branch)
                yield from _abandoned_publications(branch, story)
                yield from _parts_of_runs(branch)


def _target_branches(repository: RepositoryStory, story: Story) -> list[BranchStory]:
    """The branches that tasks were told to publish to, and that are still there."""
    names = {
        str(target.get("branch"))
        for row in story.rows
        if (target := target_of(row)).get("repository") == repository.id
    }
    return [branch for branch in repository.branches if branch.name in names]


def _lost_publications(repository: RepositoryStory, story: Story) -> Iterator[str]:
    anywhere = {commit.commit for branch in repository.branches for commit in branch.commits}
    runs = {
        commit.metadata.get(commit_metadata.RUN)
        for branch in repository.branches
        for commit in branch.commits
    }
    for row in story.rows:
        given = as_mapping(row.input_data.get("workspace"))
        accepted = published_workspace(row)
        if row.snapshot.status != "COMPLETED" or accepted.get("repository") != repository.id:
            continue
        name, commit = str(accepted["branch"]), str(accepted["ref"])
        branch = repository.branch(name)
        if (key := key_of_run(name)) is not None and key in runs:
            continue  # finish has removed the branch; a late request of begin may make it anew
        # Only its own branch counts, because a tag or a copy may still have what the branch has
        # lost. An input that is handed on unchanged may be from anywhere.
        found = {one.commit for one in branch.commits} if branch else set[str]()
        if commit not in (anywhere if commit == given.get("ref") else found):
            what = f"the accepted publication {commit[:8]} of {row.snapshot.reference_name}"
            yield f"lost: {what} is not on {name}"


def _lost_commits(
    repository: RepositoryStory, known: Sequence[tuple[str, CommitId]]
) -> Iterator[str]:
    for name, commit in known:
        branch = repository.branch(name)
        if branch is None:
            yield f"lost: {repository.name} has no branch {name} any more"
        elif commit not in {found.commit for found in branch.commits}:
            yield f"lost: another writer's commit {commit[:8]} left the history of {name}"


def _repeated_publications(branch: BranchStory) -> Iterator[str]:
    counts = Counter(
        commit.metadata[commit_metadata.LOGICAL_EXECUTION_KEY]
        for commit in branch.commits
        if commit_metadata.LOGICAL_EXECUTION_KEY in commit.metadata
    )
    for key, count in counts.items():
        if count > 1:
            yield (
                f"repeated: {count} publications of the logical execution {key} are on"
                f" {branch.name}"
            )


def _parts_of_runs(branch: BranchStory) -> Iterator[str]:
    if key_of_run(branch.name) is not None:
        return
    runs = Counter(
        commit.metadata[commit_metadata.RUN]
        for commit in branch.commits
        if commit_metadata.RUN in commit.metadata
    )
    for key, count in runs.items():
        if count > 1:
            yield f"repeated: {count} publications of run {key} are on {branch.name}"
    for commit in branch.commits:
        if key_of_run(commit.metadata.get(commit_metadata.TARGET_BRANCH, "")) is not None:
            part = f"{commit.commit[:8]} of a task of a run is on {branch.name}"
            yield f"partial: {part}, which may show the run as a whole only"


def _abandoned_publications(branch: BranchStory, story: Story) -> Iterator[str]:
    if not story.completed:
        return
    accepted = story.accepted_commits()
    for commit in branch.commits:
        if commit_kind(commit, accepted) == "abandoned":
            key = commit.metadata[commit_metadata.LOGICAL_TASK_KEY]
            found = f"{commit.commit[:8]} of {key} is on {branch.name}"
            yield f"abandoned: {found}, and Conductor accepted no attempt with it"
