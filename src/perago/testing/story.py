"""The story of an environment: workflows, attempts, commits; as values, as JSON, as text.

Collects and judges nothing. A failing assertion prints the text, the page shows the JSON.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from perago.domain.attempt import AttemptRecord, WorkflowStatus
from perago.domain.commit_metadata import LOGICAL_TASK_KEY, PHASE, STAGING_COMMIT, TASK_ID, TRY
from perago.domain.references import CommitRecord
from perago.ports.installations import ConductorInstallation
from perago.ports.workflows import WorkflowRecord
from perago.testing.attempt_story import AttemptStory
from perago.testing.ground import Ground
from perago.testing.json_values import as_object
from perago.testing.repository import Repository
from perago.testing.workflow_run import WorkflowRun


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
            workspace = as_object(row.output_data.get("workspace"))
            if row.snapshot.status == "COMPLETED" and workspace:
                found[str(workspace["ref"])] = row.snapshot.reference_name
        return found


def commit_kind(commit: CommitRecord, accepted: Iterable[str]) -> str:
    """What a commit is to the workflows: staged, published, abandoned, or somebody else's."""
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
    ground: Ground,
    repositories: Iterable[Repository],
    runs: Iterable[WorkflowRun],
    attempts: Sequence[AttemptStory],
) -> Story:
    """Read everything as it is now."""
    workflows = tuple([(run.name, await run.read()) for run in runs])
    told = [await _tell_repository(ground, repository) for repository in repositories]
    children = [
        child for _, record in workflows for child in await _children(ground.conductor, record)
    ]
    return Story(workflows, tuple(attempts), tuple(told), tuple(children))


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


async def _tell_repository(ground: Ground, repository: Repository) -> RepositoryStory:
    branches: list[BranchStory] = []
    for name in await ground.branches(repository.id):
        history = await ground.history(repository.id, name)
        branches.append(BranchStory(name, tuple(history)))
    tags: dict[str, list[str]] = {}
    for tag, commit in (await ground.tags(repository.id)).items():
        tags.setdefault(commit, []).append(tag)
    shown = {commit.commit for branch in branches for commit in branch.commits}
    for tagged in [commit for commit in tags if commit not in shown]:
        # Decisions and relocated heads outlive their branches.
        history = await ground.history(repository.id, tagged)
        branches.append(BranchStory(f"(tag) {tags[tagged][0]}", tuple(history)))
    return RepositoryStory(repository.id, repository.name, tuple(branches), tags)
