"""What a finished story must satisfy, whatever went wrong on the way.

An accepted publication is on its branch; somebody else's commit is not lost; under `settled` a
logical execution published at most once, and nothing of an abandoned attempt is left.
"""

from collections import Counter
from collections.abc import Iterator, Mapping

from perago.domain.commit_metadata import LOGICAL_EXECUTION_KEY, LOGICAL_TASK_KEY
from perago.domain.references import CommitId, RepositoryId
from perago.testing.story import RepositoryStory, Story, commit_kind


async def broken_invariants(
    story: Story, inputs: Mapping[RepositoryId, CommitId], *, settled: bool
) -> list[str]:
    """Every broken promise in words."""
    broken = list(_lost_publications(story))
    for repository in story.repositories:
        broken += _lost_inputs(repository, inputs)
        if settled:
            broken += _repeated_publications(repository)
            broken += _abandoned_publications(repository, story)
    return broken


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


def _lost_inputs(
    repository: RepositoryStory, inputs: Mapping[RepositoryId, CommitId]
) -> Iterator[str]:
    main = repository.branch("main")
    known = inputs.get(RepositoryId(repository.id))
    if main is None:
        yield f"lost: {repository.name} has no branch main any more"
    elif known is not None and known not in {commit.commit for commit in main.commits}:
        yield f"lost: the first files of {repository.name} left the history of main"


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
