"""Tells a played scene in a few lines: what happened, what is on the branch, what was promised.

Formats only.
"""

from collections.abc import Iterator

from perago.domain.terminal_text import plain
from perago.testing.attempt_story import AttemptStory, EventKind
from perago.testing.demo.scenes import Played
from perago.testing.story import Story, commit_kind, commit_task, made_by

TITLE = "Perago: a workflow of three tasks on a versioned workspace, and what goes wrong with it"
GROUND = "lakeFS and Conductor are in memory, time is virtual; the steps are the real ones"
ON_SPARK = "the aggregate runs on Spark in this process"


def opening(policy: str, no_spark: str | None) -> Iterator[str]:
    """The first lines; they say why the aggregate is not a Spark task, when it is none."""
    yield TITLE
    yield f"  {GROUND}"
    yield f"  {ON_SPARK if no_spark is None else f'the aggregate is plain Python: {no_spark}'}"
    yield f"  policy {policy}; events -> clean -> aggregate -> report, each task one commit on main"


def narrate(number: int, played: Played) -> Iterator[str]:
    """One scene."""
    yield ""
    yield f"{number}. {played.scene.title}"
    for attempt in played.story.attempts:
        strikes = [e.text for e in attempt.events if e.kind is EventKind.STRIKE]
        if strikes or attempt.number > 1 or attempt.reason:
            yield f"   {attempt.reference} attempt {attempt.number}: {_end(attempt, strikes)}"
    yield f"   main: {_history(played.story)}"
    if played.status == "COMPLETED":
        yield f"   report: {plain(played.report)} after {played.bodies} runs of task code"
    else:
        yield f"   workflow {played.status}: nothing of `report` was published, nothing was lost"
    for broken in played.broken:
        yield f"   {broken}"
    yield f"   {_verdict(played)}"


def closing(all_played: list[Played]) -> Iterator[str]:
    """The last line."""
    good = sum(played.as_expected for played in all_played)
    yield ""
    yield f"{good} of {len(all_played)} scenes lost nothing"


def _verdict(played: Played) -> str:
    if played.as_expected:
        return "ok"
    if played.is_promised:
        return "BROKEN: this was promised"
    return f"{played.policy} does not promise more (docs/guarantees.md); settled does"


def _end(attempt: AttemptStory, strikes: list[str]) -> str:
    told = "; ".join(strikes)
    resumed = "resumes the decision without running the body again" if _resumed(attempt) else ""
    ends = {
        "DIED": "",
        "COMPLETED recorded": "published, and Conductor accepts it",
        "COMPLETED superseded": "finds it published, Conductor ignores it",
        "FAILED superseded": "is refused",
        "NOT SENT superseded": "finds that another attempt has taken over, and ends nothing",
        "FAILED recorded": "refused: the target moved",
        "FAILED_WITH_TERMINAL_ERROR recorded": "refused for good: the target moved",
    }
    end = ends.get(f"{attempt.status} {attempt.recorded}".strip(), attempt.status)
    return "; ".join(part for part in (told, resumed, end) if part)


def _resumed(attempt: AttemptStory) -> bool:
    return "resumed" in attempt.phases()


def _history(story: Story) -> str:
    """The commits of main, oldest first."""
    main = story.repositories[0].branch("main")
    assert main is not None, "the demonstration never deletes main"
    accepted = story.accepted_commits()
    parts: list[str] = []
    for commit in reversed(main.commits[:-1]):
        author = made_by(commit, story.attempts)
        kind = commit_kind(commit, accepted)
        if author is None:
            parts.append("[foreign]" if commit.message == "a foreign commit" else "events")
        elif kind == "published":
            parts.append(commit_task(commit))
        else:
            parts.append(f"[{kind} {commit_task(commit)}]")
    return " -> ".join(parts)
