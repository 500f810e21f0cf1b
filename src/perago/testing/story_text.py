"""The story as lines for people: workflows, attempts with their phases, commits of each branch.

Formats only. Output of tasks is printed without control characters: it may be anything.
"""

from collections.abc import Iterator

from perago.domain.terminal_text import plain
from perago.testing.attempt_story import AttemptStory, Event, EventKind
from perago.testing.story import RepositoryStory, Story, commit_kind, commit_task, made_by

QUIET_PHASES = frozenset({"started", "ended", "fenced", "pre-checked", "post-checked", "cleaned"})
SHORT = 8


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
    mark = {EventKind.STRIKE: "!! ", EventKind.OUTPUT: "| "}.get(event.kind, "")
    return f"{mark}{plain(event.text)}{': ' + plain(facts) if facts else ''}"


def _short(value: object) -> str:
    text = str(value)
    is_commit = len(text) == 64 and set(text) <= set("0123456789abcdef")  # noqa: PLR2004 - SHA-256
    return text[:SHORT] if is_commit else text
