"""The story as one JSON document with a versioned schema, for the page and for programs.

Plain values only; whoever shows them escapes them.
"""

from perago.testing.attempt_story import AttemptStory
from perago.testing.story import (
    BranchStory,
    RepositoryStory,
    Story,
    commit_kind,
    commit_task,
    made_by,
    staged_commit,
)

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
