"""The story of a run: what each attempt did, what the repositories hold, as data and as lines.

`WorkflowRun` is one started workflow as a test looks at it. `tell_story` collects the story,
`story_document` makes JSON of it and `story_lines` text for people.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast, final

from perago.domain.attempt import AttemptRecord, WorkflowStatus
from perago.domain.commit_metadata import LOGICAL_TASK_KEY, PHASE, STAGING_COMMIT, TASK_ID, TRY
from perago.domain.logical_execution import CommitRecord
from perago.domain.text import plain
from perago.ports.conductor import WorkflowRecord, Workflows
from perago.ports.installations import ConductorInstallation
from perago.testing.attempt_story import AttemptStory, Event, EventKind
from perago.testing.definitions import published_workspace
from perago.testing.servers import Repository, Servers


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
    if PHASE not in commit.metadata:  # the commit of a fence has an owner, and is no task's work
        return "foreign" if commit.parents else "root"
    if commit.commit in set(accepted):
        return "published"  # also a staged commit that the target was relocated to
    return "staged" if commit.metadata.get(PHASE) == TRY else "abandoned"


def commit_task(commit: CommitRecord) -> str:
    """The reference name of the task that made a commit, or nothing."""
    parts = commit.metadata.get(LOGICAL_TASK_KEY, "").split("/")
    return parts[1] if len(parts) > 1 else ""


def made_by(commit: CommitRecord, attempts: Sequence[AttemptStory]) -> AttemptStory | None:
    """The attempt that made a commit."""
    task_id = commit.metadata.get(TASK_ID)
    return next((story for story in attempts if story.task_id == task_id), None)


def staged_commit(commit: CommitRecord) -> str:
    """The staged commit that a publication brought to the target, or nothing."""
    return commit.metadata.get(STAGING_COMMIT, "")


async def tell_story(
    servers: Servers,
    repositories: Iterable[Repository],
    runs: Iterable[WorkflowRun],
    attempts: Sequence[AttemptStory],
) -> Story:
    """Read everything as it is now."""
    workflows = tuple([(run.name, await run.read()) for run in runs])
    stories = [await _tell_repository(servers, repository) for repository in repositories]
    children = [
        child for _, record in workflows for child in await _children(servers.conductor, record)
    ]
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


async def _tell_repository(servers: Servers, repository: Repository) -> RepositoryStory:
    branches: list[BranchStory] = []
    for name in await servers.branches(repository.id):
        history = await servers.history(repository.id, name)
        branches.append(BranchStory(name, tuple(history)))
    tags: dict[str, list[str]] = {}
    for tag, commit in (await servers.tags(repository.id)).items():
        tags.setdefault(commit, []).append(tag)
    shown = {commit.commit for branch in branches for commit in branch.commits}
    for tagged in [commit for commit in tags if commit not in shown]:
        # Decisions and relocated heads outlive their branches.
        history = await servers.history(repository.id, tagged)
        branches.append(BranchStory(f"(tag) {tags[tagged][0]}", tuple(history)))
    return RepositoryStory(repository.id, repository.name, tuple(branches), tags)


SCHEMA = "perago.story/1"


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
        "attempts": [attempt_document(attempt) for attempt in story.attempts],
        "repositories": [_repository(repository, story) for repository in story.repositories],
    }


def attempt_document(attempt: AttemptStory) -> dict[str, object]:
    """One attempt, also while it runs."""
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
            {
                "seconds": round(event.seconds, 3),
                "kind": str(event.kind),
                "text": event.text,
                "facts": {key: str(value) for key, value in event.facts.items()},
            }
            for event in attempt.events
        ],
    }


def _repository(repository: RepositoryStory, story: Story) -> dict[str, object]:
    return {
        "name": repository.name,
        "branches": [_branch(branch, repository, story) for branch in repository.branches],
    }


def _branch(branch: BranchStory, repository: RepositoryStory, story: Story) -> dict[str, object]:
    accepted = story.accepted_commits()
    commits: list[dict[str, object]] = []
    for commit in branch.commits:
        author = made_by(commit, story.attempts)
        commits.append(
            {
                "id": commit.commit,
                "parents": list(commit.parents),
                "kind": commit_kind(commit, accepted),
                "task": commit_task(commit),
                "attempt": None if author is None else author.number,
                "message": commit.message,
                "staged": staged_commit(commit),
                "tags": repository.tags.get(commit.commit, []),
            }
        )
    return {"name": branch.name, "commits": commits}


# Phases of every attempt: as lines they would hide what differs between two.
QUIET_PHASES = frozenset(
    {"started", "ended", "fenced", "pre-checked", "post-checked", "checked", "cleaned"}
)
SHORT = 8  # digits of a commit id: two commits of one test do not share them


def story_lines(story: Story) -> Iterator[str]:
    """Every line."""
    for name, record in story.workflows:
        reason = f": {plain(record.reason)}" if record.reason else ""
        yield f"workflow {name} {record.status}{reason}"
    for attempt in story.attempts:
        yield from attempt_lines(attempt)
    for repository in story.repositories:
        yield from commit_lines(repository, story)


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


def commit_lines(repository: RepositoryStory, story: Story) -> Iterator[str]:
    """The branches with their commits, newest first; staging branches by their own commits."""
    accepted = story.accepted_commits()
    main = repository.branch("main")
    shared = {commit.commit for commit in main.commits} if main else set[str]()
    for branch in sorted(repository.branches, key=lambda branch: branch.name != "main"):
        yield f"{repository.name} {branch.name}"
        for commit in branch.commits:
            if branch.name != "main" and commit.commit in shared:
                yield f"  o {commit.commit[:SHORT]}"
                break
            kind = commit_kind(commit, accepted)
            author = made_by(commit, story.attempts)
            number = f" attempt {author.number}" if author else ""
            said = f"{commit_task(commit)}{number}" if author else plain(commit.message)
            tags = "".join(f" <{tag}>" for tag in repository.tags.get(commit.commit, ()))
            yield f"  * {commit.commit[:SHORT]} {kind:9} {said}{tags}"


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
