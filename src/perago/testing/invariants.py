"""What a finished story must satisfy, whatever went wrong on the way.

An accepted publication is on its branch; another writer's commit is not lost; under `settled` a
logical execution published at most once, and nothing of an abandoned attempt is left. All of it
holds for every branch that a task of the story was given, not for `main` alone. A branch that is
not a run's has nothing of a run but the one commit that published it.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from perago.domain.commit_metadata import (
    LOGICAL_EXECUTION_KEY,
    LOGICAL_TASK_KEY,
    RUN,
    TARGET_BRANCH,
)
from perago.domain.logical_execution import CommitId, RepositoryId
from perago.domain.run import key_of_run
from perago.testing.definitions import as_object, published_workspace, target_of
from perago.testing.story import BranchStory, RepositoryStory, Story, commit_kind


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
    runs = {commit.metadata.get(RUN) for branch in repository.branches for commit in branch.commits}
    for row in story.rows:
        given = as_object(row.input_data.get("workspace"))
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
        commit.metadata[LOGICAL_EXECUTION_KEY]
        for commit in branch.commits
        if LOGICAL_EXECUTION_KEY in commit.metadata
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
    runs = Counter(commit.metadata[RUN] for commit in branch.commits if RUN in commit.metadata)
    for key, count in runs.items():
        if count > 1:
            yield f"repeated: {count} publications of run {key} are on {branch.name}"
    for commit in branch.commits:
        if key_of_run(commit.metadata.get(TARGET_BRANCH, "")) is not None:
            part = f"{commit.commit[:8]} of a task of a run is on {branch.name}"
            yield f"partial: {part}, which may show the run as a whole only"


def _abandoned_publications(branch: BranchStory, story: Story) -> Iterator[str]:
    if not story.completed:
        return
    accepted = story.accepted_commits()
    for commit in branch.commits:
        if commit_kind(commit, accepted) == "abandoned":
            key = commit.metadata[LOGICAL_TASK_KEY]
            found = f"{commit.commit[:8]} of {key} is on {branch.name}"
            yield f"abandoned: {found}, and Conductor accepted no attempt with it"
