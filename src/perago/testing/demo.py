"""`perago demo`: four short scenes of a workflow, what they must show, and how it is told.

The tasks are functions as a team would write them: raw events to clean rows to totals to a report.
The aggregate exists twice under one name: on Spark, and in plain Python for machines without it;
both write a table that `report` reads. A scene is a list of faults and a judgement. `play` runs it,
`narrate` prints what happened; the command fails when a scene did not end as it must.
"""

import asyncio
import csv
import json
from collections import defaultdict
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import typer
from pydantic import BaseModel

from perago.adapters.spark.jars import check_versions, read_facts
from perago.adapters.spark.session import SparkConfiguration, process_session, stop_session
from perago.app.authoring.guardrails import require_file, require_glob
from perago.app.authoring.task_declaration import task
from perago.app.authoring.task_definition import RetryPolicy, TaskControls, TimeoutPolicy
from perago.app.authoring.workspace_spec import WorkspaceSpec
from perago.app.command_line.reporting import JsonOption, say, say_json
from perago.app.command_line.watch import serve_until_interrupted
from perago.app.page.model import PageView, SceneView
from perago.app.page.page_server import Shown
from perago.app.runs.finish import FINISH_TASK
from perago.domain.errors import SparkEnvironmentError
from perago.domain.policy import PolicySetting
from perago.domain.text import plain
from perago.ports.workspace import SparkWorkspace
from perago.testing.definitions import definition_of, sequence
from perago.testing.dev import DevRequest, run_scene
from perago.testing.faults import Fault, crash, foreign_commit, zombie
from perago.testing.story import AttemptStory, EventKind, Story
from perago.testing.story_views import commits_of, story_document

OWNER = "data@example.com"
# More retries than a scene has faults of one task. The time is virtual, so that a pause and a lost
# lease cost the reader nothing.
CONTROLS = TaskControls(
    retry=RetryPolicy(count=3, delay_seconds=5), timeout=TimeoutPolicy(response_seconds=60)
)
CLEAN_ROWS = "day string, shop string, amount int"
RAW_EVENTS = """\
day,shop,amount
2026-01-01,north,10
2026-01-01,south,7
2026-01-01,north,not a number
2026-01-02,north,12
2026-01-02,south,
2026-01-02,south,5
"""


class NoParams(BaseModel):
    """Nothing to choose."""


class Counted(BaseModel):
    """How many rows a task wrote, and how many it left out."""

    rows: int
    dropped: int = 0


@task(
    name="demo.clean",
    owner_email=OWNER,
    workspace=WorkspaceSpec(prefix="sales", pre=[require_file("raw/events.csv")]),
    controls=CONTROLS,
)
def clean(workspace: Path, params: NoParams) -> Counted:
    """Keep the rows whose amount is a number."""
    del params
    with (workspace / "raw/events.csv").open(newline="") as source:
        rows = list(csv.DictReader(source))
    kept = [row for row in rows if row["amount"].isdigit()]
    _write(workspace / "clean/events.csv", ["day", "shop", "amount"], kept)
    return Counted(rows=len(kept), dropped=len(rows) - len(kept))


CLEANED = WorkspaceSpec(
    prefix="sales",
    pre=[require_file("clean/events.csv")],
    post=[require_glob("totals/*.csv")],
)


@task(name="demo.aggregate", owner_email=OWNER, workspace=CLEANED, controls=CONTROLS)
def aggregate_on_spark(workspace: SparkWorkspace, params: NoParams) -> Counted:
    """Sum up the amounts of each shop; rows go from lakeFS to lakeFS, not through the worker."""
    del params
    reader = workspace.read.schema(CLEAN_ROWS).option("header", "true")
    events = reader.csv("clean/events.csv")
    totals = events.groupBy("shop").sum("amount").toDF("shop", "total")
    workspace.write(totals.selectExpr("shop", "string(total)").coalesce(1), "totals", format="csv")
    return Counted(rows=totals.count())


@task(name="demo.aggregate", owner_email=OWNER, workspace=CLEANED, controls=CONTROLS)
def aggregate(workspace: Path, params: NoParams) -> Counted:
    """Sum up the amounts of each shop."""
    del params
    totals: dict[str, int] = defaultdict(int)
    with (workspace / "clean/events.csv").open(newline="") as source:
        for row in csv.DictReader(source):
            totals[row["shop"]] += int(row["amount"])
    path = workspace / "totals/part-0.csv"
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(f"{shop},{total}\n" for shop, total in sorted(totals.items())))
    return Counted(rows=len(totals))


@task(
    name="demo.report",
    owner_email=OWNER,
    workspace=WorkspaceSpec(prefix="sales", pre=[require_glob("totals/*.csv")]),
    controls=CONTROLS,
)
def report(workspace: Path, params: NoParams) -> Counted:
    """Write the totals for people."""
    del params
    parts = sorted((workspace / "totals").glob("*.csv"))
    lines = [line.split(",") for part in parts for line in part.read_text().splitlines()]
    totals = {shop: int(total) for shop, total in lines}
    (workspace / "report.json").write_text(json.dumps(totals, sort_keys=True))
    return Counted(rows=len(totals))


def _write(path: Path, names: list[str], rows: list[dict[str, str]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as target:
        writer = csv.DictWriter(target, names)
        writer.writeheader()
        writer.writerows(rows)


EXPECTED_REPORT = '{"north": 22, "south": 12}'
# No task of the demo writes it: if it is gone, a publication has dropped the commit of another
# writer.
FOREIGN = {"sales/NOTES.md": b"do not lose me\n"}


@dataclass(frozen=True, slots=True)
class Scene:
    """One accident, and how the workflow has to end under a policy."""

    title: str
    faults: tuple[Fault, ...] = ()
    expected: Mapping[str, str] = field(default_factory=dict[str, str])
    in_transaction: tuple[Fault, ...] = ()
    """The accident where the workflow is one transaction, which only `settled` can make of it."""

    def is_transaction(self, policy: str) -> bool:
        """Whether the tasks publish on a run branch, and the target shows all of them or none."""
        return policy == PolicySetting.SETTLED and bool(self.in_transaction)


@dataclass(frozen=True, slots=True)
class Played:
    """A scene as it was played; `shown.problems` names every invariant that did not hold."""

    scene: Scene
    shown: SceneView
    story: Story
    report: str

    @property
    def function_runs(self) -> int:
        """How often code of a task ran to its end."""
        return sum("function-ended" in attempt.phases() for attempt in self.story.attempts)

    @property
    def is_promised(self) -> bool:
        """Only `settled` promises that nothing is ever lost; docs/guarantees.md has the table."""
        return self.shown.policy == PolicySetting.SETTLED

    @property
    def as_expected(self) -> bool:
        """Whether it ended as it must: a report is right, or nothing was published over others."""
        status = self.shown.status
        ended = status == self.scene.expected.get(self.shown.policy, "COMPLETED")
        right = status != "COMPLETED" or self.report == EXPECTED_REPORT
        return ended and right and not self.shown.problems


SCENES = (
    Scene("nothing goes wrong"),
    Scene(
        "`clean` publishes, and its process dies before it can say so",
        (crash(after="merge", task="demo.clean"),),
    ),
    Scene(
        "`aggregate` stalls before it publishes, is given up, and wakes up as a zombie",
        (zombie(task="demo.aggregate", until="accepted"),),
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
    transaction = scene.is_transaction(policy)
    request = DevRequest(
        definitions=[sequence("sales", *tasks, transaction=transaction)],
        tasks=[definition_of(each) for each in tasks],
        files={"sales/raw/events.csv": RAW_EVENTS},
        workflow_input={},
        faults=scene.in_transaction if transaction else scene.faults,
        repository="sales-data",
        title=scene.title,
    )
    run = await run_scene(request, policy)
    made = run.files.get("sales/report.json", b"").decode()
    return Played(scene, run.scene, run.story, made)


def opening(policy: str, no_spark: str | None) -> Iterator[str]:
    """The first lines; they say why the aggregate is not a Spark task, when it is none."""
    yield "Perago: a workflow of three tasks on a versioned workspace, and what goes wrong with it"
    yield "  lakeFS and Conductor are in memory, time is virtual; the steps are the real ones"
    on_spark = "the aggregate runs on Spark in this process"
    yield f"  {on_spark if no_spark is None else f'the aggregate is plain Python: {no_spark}'}"
    yield f"  policy {policy}; events -> clean -> aggregate -> report, each task one commit on main"


def narrate(number: int, played: Played) -> Iterator[str]:
    """One scene; of attempts, those to which something happened: a fault, a retry, a refusal."""
    shown = played.shown
    yield ""
    transaction = played.scene.is_transaction(shown.policy)
    how = "; the workflow is one transaction" if transaction else ""
    yield f"{number}. {played.scene.title}{how}"
    for attempt in played.story.attempts:
        injected = [e.text for e in attempt.events if e.kind is EventKind.INJECTED]
        if injected or attempt.number > 1 or attempt.reason:
            yield f"   {attempt.reference} attempt {attempt.number}: {_end(attempt, injected)}"
    yield f"   main: {_history(played.story)}"
    if shown.status == "COMPLETED":
        yield f"   report: {plain(played.report)} after {played.function_runs} runs of task code"
    elif transaction:
        yield f"   workflow {shown.status}: main has none of its three steps, nothing was lost"
        yield "   they are held on a private branch: `perago diff RUN` shows what they would change"
    else:
        yield f"   workflow {shown.status}: nothing of `report` was published, nothing was lost"
    yield from (f"   {broken}" for broken in shown.problems)
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
    return f"{played.shown.policy} does not promise more (docs/guarantees.md); settled does"


def _end(attempt: AttemptStory, injected: list[str]) -> str:
    happened = "; ".join(injected)
    resumed = ""
    if "resumed" in attempt.phases():
        resumed = "resumes the decision without running the task function again"
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


def _history(story: Story) -> str:
    """The commits of main, oldest first."""
    (repository,) = story.repositories
    main = repository.branch("main")
    assert main is not None, "the demonstration never deletes main"
    *newer, _ = commits_of(main, repository, story)  # the last one is the repository's empty start
    parts: list[str] = []
    for each in reversed(newer):
        if each.attempt is None:
            foreign = each.message == "a foreign commit"
            parts.append("[foreign]" if foreign else "events")
        else:
            parts.append(each.task if each.kind == "published" else f"[{each.kind} {each.task}]")
    return " -> ".join(parts)


POLICIES = ("settled", "head-parent", "lineage")


def demo(
    *,
    policy: Annotated[
        Literal["settled", "head-parent", "lineage", "all"],
        typer.Option(help="Publication policy to show."),
    ] = "settled",
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
    no_spark = _without_spark(spark)
    happened: list[Played] = []
    with demo_session() if no_spark is None else nullcontext():
        for name in POLICIES if policy == "all" else [policy]:
            on_spark = no_spark is None
            played = [asyncio.run(play(scene, name, on_spark=on_spark)) for scene in SCENES]
            happened += played
            if not as_json:
                _print(name, played, no_spark)
    if as_json:
        say_json("demo/1", {"scenes": [_document(played) for played in happened]})
    if open_page:
        page = PageView("perago demo", tuple(played.shown for played in happened), live=False)
        serve_until_interrupted(Shown(page), 0, open_page=True)
    if not all(played.as_expected for played in happened if played.is_promised):
        raise typer.Exit(code=1)


def _without_spark(wanted: bool | None) -> str | None:  # noqa: FBT001 - a switch of three states
    """Why the aggregate is not on Spark; what is wanted and cannot be is an error."""
    if wanted is False:
        return "--no-spark"
    try:
        check_versions(read_facts(), [], needs_s3a=False)
    except SparkEnvironmentError as problem:
        if wanted:
            raise
        return str(problem)
    return None


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
        "policy": played.shown.policy,
        "status": played.shown.status,
        "report": played.report,
        "broken": list(played.shown.problems),
        "as_expected": played.as_expected,
        "function_runs": played.function_runs,
        "story": story_document(played.story),
    }


# One partition, because the table has a few rows; loopback, because the demo must open no port.
QUIET = {
    "spark.log.level": "ERROR",
    "spark.sql.shuffle.partitions": "1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
}


@contextmanager
def demo_session() -> Generator[None]:
    """The session that task functions of this process find."""
    process_session(SparkConfiguration(master="local[2]", options=QUIET), needs_s3a=False)
    try:
        yield
    finally:
        stop_session()
