"""What a finished story must satisfy, whatever went wrong on the way.

An accepted publication is on its branch; somebody else's commit is not lost; under `settled` a
logical execution published at most once, and nothing of an abandoned attempt is left.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from perago.domain.commit_metadata import LOGICAL_EXECUTION_KEY, LOGICAL_TASK_KEY
from perago.domain.references import CommitId, RepositoryId
from perago.testing.story import RepositoryStory, Story, commit_kind


def broken_invariants(
    story: Story,
    commits_of_others: Mapping[RepositoryId, Sequence[tuple[str, CommitId]]],
    *,
    settled: bool,
) -> Iterator[str]:
    """Every broken promise in words."""
    yield from _lost_publications(story)
    for repository in story.repositories:
        known = commits_of_others.get(RepositoryId(repository.id), ())
        yield from _lost_commits(repository, known)
        if settled:
            yield from _repeated_publications(repository)
            yield from _abandoned_publications(repository, story)


def _lost_publications(story: Story) -> Iterator[str]:
    on_branches = {
        commit.commit
        for repository in story.repositories
        for branch in repository.branches
        for commit in branch.commits
    }
    for commit, reference in story.accepted_commits().items():
        if commit not in on_branches:
            yield f"lost: the accepted publication {commit[:8]} of {reference} is on no branch"


def _lost_commits(
    repository: RepositoryStory, known: Sequence[tuple[str, CommitId]]
) -> Iterator[str]:
    for name, commit in known:
        branch = repository.branch(name)
        if branch is None:
            yield f"lost: {repository.name} has no branch {name} any more"
        elif commit not in {found.commit for found in branch.commits}:
            yield f"lost: somebody else's commit {commit[:8]} left the history of {name}"


def _repeated_publications(repository: RepositoryStory) -> Iterator[str]:
    main = repository.branch("main")
    counts = Counter(
        commit.metadata[LOGICAL_EXECUTION_KEY]
        for commit in (main.commits if main else ())
        if LOGICAL_EXECUTION_KEY in commit.metadata
    )
    for key, count in counts.items():
        if count > 1:
            yield f"repeated: {count} publications of the logical execution {key}"


def _abandoned_publications(repository: RepositoryStory, story: Story) -> Iterator[str]:
    main = repository.branch("main")
    if not story.completed or main is None:
        return
    accepted = story.accepted_commits()
    for commit in main.commits:
        if commit_kind(commit, accepted) == "abandoned":
            key = commit.metadata[LOGICAL_TASK_KEY]
            yield f"abandoned: {commit.commit[:8]} of {key} is on main, and nobody accepted it"
