"""`perago demo`: four short scenes on an environment each, what they must show, and how it is told.

A scene is a list of faults and a judgement. `play` runs it, `narrate` prints what happened; the
command fails when a scene did not end as it must.
"""

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

import typer

from perago.app.command_line.reporting import JsonOption, reports_errors, say, say_json
from perago.app.command_line.serve_page import serve_until_interrupted
from perago.app.page.page_server import Shown
from perago.app.runs.finish import FINISH_TASK
from perago.domain.policy import PolicySetting
from perago.domain.text import plain
from perago.testing.attempt_story import AttemptStory, EventKind
from perago.testing.definitions import sequence
from perago.testing.demo.pipeline import (
    RAW_EVENTS,
    aggregate,
    aggregate_on_spark,
    clean,
    demo_session,
    report,
    why_no_spark,
)
from perago.testing.dev.story_page import page_of
from perago.testing.environment import PeragoEnvironment
from perago.testing.faults import Fault, crash, foreign_commit, zombie
from perago.testing.invariants import broken_invariants
from perago.testing.story import Story, commit_kind, commit_task, made_by, story_document

EXPECTED_REPORT = '{"north": 22, "south": 12}'
# No task of the demo writes it: if it is gone, a publication has dropped the commit of another
# writer.
FOREIGN = {"sales/NOTES.md": b"do not lose me\n"}


@dataclass(frozen=True, slots=True)
class Scene:
    """One accident, and how the workflow has to end under a policy."""

    title: str
    faults: tuple[Fault, ...]
    expected: Mapping[str, str]
    in_transaction: tuple[Fault, ...] = ()
    """The accident where the workflow is one transaction, which only `settled` can make of it."""

    def is_transaction(self, policy: str) -> bool:
        """Whether the tasks publish on a run branch, and the target shows all of them or none."""
        return policy == PolicySetting.SETTLED and bool(self.in_transaction)


@dataclass(frozen=True, slots=True)
class Played:
    """A scene with its story; `broken` names every invariant that did not hold."""

    scene: Scene
    policy: str
    story: Story
    status: str
    report: str
    broken: tuple[str, ...]
    bodies: int
    seconds: float

    @property
    def is_promised(self) -> bool:
        """Only `settled` promises that nothing is ever lost; docs/guarantees.md has the table."""
        return self.policy == PolicySetting.SETTLED

    @property
    def as_expected(self) -> bool:
        """Whether it ended as it must: a report is right, or nothing was published over others."""
        ended = self.status == self.scene.expected.get(self.policy, "COMPLETED")
        right = self.status != "COMPLETED" or self.report == EXPECTED_REPORT
        return ended and right and not self.broken


SCENES = (
    Scene("nothing goes wrong", (), {}),
    Scene(
        "`clean` publishes, and its process dies before it can say so",
        (crash(after="merge", task="demo.clean"),),
        {},
    ),
    Scene(
        "`aggregate` stalls before it publishes, is given up, and wakes up as a zombie",
        (zombie(task="demo.aggregate", until="accepted"),),
        {},
    ),
    Scene(
        "another writer commits to main while `report` is about to publish",
        (foreign_commit(after="stage", task="demo.report", files=FOREIGN),),
        {PolicySetting.SETTLED: "FAILED", PolicySetting.LINEAGE: "FAILED"},
        (foreign_commit(before="merge", task=FINISH_TASK.name, files=FOREIGN),),
    ),
)


async def play(scene: Scene, policy: str, *, on_spark: bool = False) -> Played:
    """Run the pipeline through one accident; Spark takes the session of this process."""
    tasks = (clean, aggregate_on_spark if on_spark else aggregate, report)
    with PeragoEnvironment(policy=policy) as env:
        repository = await env.repository("sales-data", {"sales/raw/events.csv": RAW_EVENTS})
        await env.register(*tasks)
        transaction = scene.is_transaction(policy)
        env.plan(*(scene.in_transaction if transaction else scene.faults))
        given: dict[str, object] = {"demo_clean": {}, "demo_aggregate": {}, "demo_report": {}}
        run = await env.start(
            sequence("sales", *tasks, transaction=transaction),
            {"workspace": await repository.workspace(), "params": given},
        )
        await env.until_idle()
        files = await repository.files()
        story = await env.story()
        others = {repository.id: repository.commits_of_others}
        broken = list(broken_invariants(story, others, settled=policy == PolicySetting.SETTLED))
        if env.pending_faults:
            broken.append("the accident did not happen")
        return Played(
            scene=scene,
            policy=policy,
            story=story,
            status=str(await run.status()),
            report=files.get("sales/report.json", b"").decode(),
            broken=tuple(broken),
            bodies=sum("function-ended" in attempt.phases() for attempt in env.attempts),
            seconds=env.seconds,
        )


TITLE = "Perago: a workflow of three tasks on a versioned workspace, and what goes wrong with it"
SETTING = "lakeFS and Conductor are in memory, time is virtual; the steps are the real ones"
IN_TRANSACTION = "; the workflow is one transaction"
ON_SPARK = "the aggregate runs on Spark in this process"


def opening(policy: str, no_spark: str | None) -> Iterator[str]:
    """The first lines; they say why the aggregate is not a Spark task, when it is none."""
    yield TITLE
    yield f"  {SETTING}"
    yield f"  {ON_SPARK if no_spark is None else f'the aggregate is plain Python: {no_spark}'}"
    yield f"  policy {policy}; events -> clean -> aggregate -> report, each task one commit on main"


def narrate(number: int, played: Played) -> Iterator[str]:
    """One scene; of attempts, those to which something happened: a fault, a retry, a refusal."""
    yield ""
    transaction = played.scene.is_transaction(played.policy)
    yield f"{number}. {played.scene.title}{IN_TRANSACTION if transaction else ''}"
    for attempt in played.story.attempts:
        injected = [e.text for e in attempt.events if e.kind is EventKind.INJECTED]
        if injected or attempt.number > 1 or attempt.reason:
            yield f"   {attempt.reference} attempt {attempt.number}: {_end(attempt, injected)}"
    yield f"   main: {_history(played.story)}"
    if played.status == "COMPLETED":
        yield f"   report: {plain(played.report)} after {played.bodies} runs of task code"
    elif transaction:
        yield f"   workflow {played.status}: main has none of its three steps, nothing was lost"
        yield "   they are held on a private branch: `perago diff RUN` shows what they would change"
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


def _end(attempt: AttemptStory, injected: list[str]) -> str:
    happened = "; ".join(injected)
    resumed = (
        "resumes the decision without running the task function again" if _resumed(attempt) else ""
    )
    ends = {
        "DIED": "",
        "COMPLETED recorded": "published, and Conductor accepts it",
        "COMPLETED superseded": "finds it published, Conductor ignores it",
        "FAILED superseded": "is refused",
        "NOT SENT superseded": "finds that another attempt has taken over, and ends nothing",
        "FAILED recorded": "refused: the target moved",
        "FAILED_WITH_TERMINAL_ERROR recorded": "refused for good: the target moved",
        # What published nothing is not read back.
        "FAILED_WITH_TERMINAL_ERROR acknowledged": "refused for good: the target moved",
    }
    end = ends.get(f"{attempt.status} {attempt.recorded}".strip(), attempt.status)
    return "; ".join(part for part in (happened, resumed, end) if part)


def _resumed(attempt: AttemptStory) -> bool:
    return "resumed" in attempt.phases()


def _history(story: Story) -> str:
    """The commits of main, oldest first."""
    main = story.repositories[0].branch("main")
    assert main is not None, "the demonstration never deletes main"
    accepted = story.accepted_commits()
    parts: list[str] = []
    for commit in reversed(main.commits[:-1]):  # the last one is the empty start of a repository
        author = made_by(commit, story.attempts)
        kind = commit_kind(commit, accepted)
        if author is None:
            parts.append("[foreign]" if commit.message == "a foreign commit" else "events")
        elif kind == "published":
            parts.append(commit_task(commit))
        else:
            parts.append(f"[{kind} {commit_task(commit)}]")
    return " -> ".join(parts)


class PolicyChoice(StrEnum):
    """Under which rules the demonstration publishes."""

    SETTLED = "settled"
    HEAD_PARENT = "head-parent"
    LINEAGE = "lineage"
    ALL = "all"


@reports_errors
def demo(
    *,
    policy: Annotated[
        PolicyChoice, typer.Option(help="Publication policy to show.")
    ] = PolicyChoice.SETTLED,
    spark: Annotated[
        bool | None,
        typer.Option(
            "--spark/--no-spark",
            help="Aggregate on Spark. Default: if both pyspark and Java are here.",
        ),
    ] = None,
    open_page: Annotated[
        bool, typer.Option("--open", help="Open the result as a page in the browser.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Run a workflow through a crash, a late attempt and a commit of another writer."""
    chosen = [policy.value]
    if policy is PolicyChoice.ALL:
        chosen = [choice.value for choice in PolicyChoice if choice is not PolicyChoice.ALL]
    no_spark = _without_spark(spark)
    happened: list[Played] = []
    with demo_session() if no_spark is None else nullcontext():
        for name in chosen:
            played = asyncio.run(_play_all(name, on_spark=no_spark is None))
            happened += played
            if not as_json:
                _print(name, played, no_spark)
    if as_json:
        say_json("demo/1", {"scenes": [_document(played) for played in happened]})
    if open_page:
        scenes = [_document(played) for played in happened]
        page = page_of({"title": "perago demo", "scenes": scenes}, live=False)
        serve_until_interrupted(Shown(page), 0, open_page=True)
    if not all(played.as_expected for played in happened if played.is_promised):
        raise typer.Exit(code=1)


def _without_spark(wanted: bool | None) -> str | None:  # noqa: FBT001 - a switch of three states
    """Why the aggregate is not on Spark; what is wanted and cannot be is an error."""
    if wanted is False:
        return "--no-spark"
    problem = why_no_spark()
    if problem is not None and wanted:
        raise problem
    return None if problem is None else str(problem)


async def _play_all(policy: str, *, on_spark: bool) -> list[Played]:
    return [await play(scene, policy, on_spark=on_spark) for scene in SCENES]


def _print(policy: str, played: list[Played], no_spark: str | None) -> None:
    for line in opening(policy, no_spark):
        say(line)
    for number, scene in enumerate(played, start=1):
        for line in narrate(number, scene):
            say(line)
    for line in closing(played):
        say(line)


def _document(played: Played) -> dict[str, object]:
    return {
        "title": played.scene.title,
        "policy": played.policy,
        "status": played.status,
        "report": played.report,
        "broken": list(played.broken),
        "as_expected": played.as_expected,
        "bodies": played.bodies,
        "story": story_document(played.story),
    }
