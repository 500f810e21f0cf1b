"""Faults of begin and finish with what must come of each, for the kit on any servers.

Decides nothing; runs one workflow of begin, two tasks and finish for each case.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel

from perago import WorkspaceSpec, task
from perago.app.runs.begin import RunReference
from perago.domain.attempt import as_mapping
from perago.domain.commit_metadata import RUN
from perago.testing import (
    Drain,
    Fault,
    PeragoEnvironment,
    Repository,
    WorkflowRun,
    arrive_late,
    crash,
    drain,
    expire_lease,
    foreign_commit,
    lose_answer,
    lose_request,
    sequence,
    zombie,
)
from perago.testing.definitions import as_list
from perago.testing.faults import ANY_CALL
from perago.testing.servers import MAIN

BEGIN, FINISH = "perago.begin", "perago.finish"
BASE_FILES = {"songs/a.txt": "a", "other/b.txt": "b"}


class Params(BaseModel):
    """Nothing to choose."""


class Result(BaseModel):
    """Nothing to say."""


@task(name="songs.load", owner_email="data@example.com", workspace=WorkspaceSpec(prefix="songs"))
def load(workspace: Path, params: Params) -> Result:
    """Write the raw file."""
    del params
    (workspace / "raw.txt").write_text("raw")
    return Result()


@task(name="songs.mix", owner_email="data@example.com", workspace=WorkspaceSpec(prefix="songs"))
def mix(workspace: Path, params: Params) -> Result:
    """Make a file of it."""
    del params
    (workspace / "mixed.txt").write_text((workspace / "raw.txt").read_text() + ", mixed")
    return Result()


@task(name="songs.undo", owner_email="data@example.com", workspace=WorkspaceSpec(prefix="songs"))
def undo(workspace: Path, params: Params) -> Result:
    """Take back what the first task did."""
    del params
    (workspace / "raw.txt").unlink()
    return Result()


@dataclass(frozen=True)
class RunCase:
    """What goes wrong, how the run is to be finished, and the code of its refusal if it is."""

    id: str
    faults: tuple[Fault, ...] = ()
    on_moved: str = "refuse"
    history: str = "merge"
    refused: str = ""
    undone: bool = False
    target: str = MAIN

    @property
    def is_drained(self) -> bool:
        """Whether a worker is told to stop."""
        return any(isinstance(fault, Drain) for fault in self.faults)


# The target moves when begin has ended, before finish has read anything, and after it has looked.
MOVED_EARLY = foreign_commit(after="complete", task=BEGIN)
MOVED = foreign_commit(before="tags.read", task=FINISH)
MOVED_LATE = foreign_commit(before="merge", task=FINISH)
CASES = (
    RunCase("nothing goes wrong"),
    RunCase("nothing goes wrong, squashed", history="squash"),
    RunCase("the second task undoes the first", undone=True),
    RunCase("the second task undoes the first, rebase", (MOVED,), on_moved="rebase", undone=True),
    RunCase("begin dies before its tag", (crash(before="tags.create", task=BEGIN),)),
    RunCase("begin dies after its tag", (crash(after="tags.create", task=BEGIN),)),
    RunCase("begin dies before its end", (crash(before="complete", task=BEGIN),)),
    RunCase("begin loses the answer to its tag", (lose_answer("tags.create", task=BEGIN),)),
    RunCase("the tag of begin is late", (arrive_late("tags.create", task=BEGIN),)),
    RunCase("a task of the run dies", (crash(after="merge", task="songs.mix"),)),
    RunCase("finish dies before the decision", (crash(before="decide", task=FINISH),)),
    RunCase("finish dies after the decision", (crash(after="decide", task=FINISH),)),
    RunCase("finish loses the answer to its decision", (lose_answer("decide", task=FINISH),)),
    RunCase("finish dies before the merge", (crash(before="merge", task=FINISH),)),
    RunCase("finish dies after the merge", (crash(after="merge", task=FINISH),)),
    RunCase("the answer to the merge is lost", (lose_answer("merge", task=FINISH),)),
    RunCase("the merge is lost", (lose_request("merge", task=FINISH),)),
    RunCase("the merge is late", (arrive_late("merge", task=FINISH),)),
    RunCase(
        "the answer to the squash is lost", (lose_answer("merge", task=FINISH),), history="squash"
    ),
    RunCase("finish is a zombie", (zombie(task=FINISH),)),
    RunCase("the lease of finish runs out", (expire_lease(task=FINISH),)),
    RunCase("finish dies before its end", (crash(before="complete", task=FINISH),)),
    RunCase("finish is given another target", refused="PRG-N002", target="other"),
    RunCase("the target moved", (MOVED,), refused="PRG-N004"),
    RunCase("the target moves in between", (MOVED_LATE,), refused="PRG-N004"),
    RunCase("the target moved, rebase", (MOVED,), on_moved="rebase"),
    RunCase("the target moves in between, rebase", (MOVED_LATE,), on_moved="rebase"),
    RunCase("the target moved, rebase and squash", (MOVED,), on_moved="rebase", history="squash"),
    RunCase(
        "a rebase dies after its merge",
        (MOVED, crash(after="merge", task=FINISH)),
        on_moved="rebase",
    ),
    RunCase(
        "a rebase loses the answer to its merge",
        (MOVED, lose_answer("merge", task=FINISH)),
        on_moved="rebase",
    ),
    RunCase("a rebase is a zombie", (MOVED, zombie(task=FINISH)), on_moved="rebase"),
    RunCase(
        "the target changed what the run has",
        (foreign_commit(before="tags.read", task=FINISH, files={"songs/raw.txt": b"theirs"}),),
        on_moved="rebase",
        refused="PRG-N005",
    ),
)
DRAINED = (
    RunCase("begin is drained at its tag", (drain(before="tags.create", task=BEGIN),)),
    RunCase("finish is drained at its decision", (drain(after="decide", task=FINISH),)),
    RunCase("finish is drained at the merge", (drain(before="merge", task=FINISH),)),
    RunCase(
        "finish is drained, and its merge is late",
        (drain(before="merge", task=FINISH), arrive_late("merge", task=FINISH)),
    ),
    RunCase(
        "a rebase is drained, and its merge is late",
        (MOVED_EARLY, drain(before="merge", task=FINISH), arrive_late("merge", task=FINISH)),
        on_moved="rebase",
    ),
    RunCase("finish is drained before its end", (drain(before="complete", task=FINISH),)),
)

# Requests of an attempt in a process that has tried the fence; `test_runs_in_the_kit` counts them.
CALLS = {BEGIN: 9, FINISH: 16}
CALLS_OF_A_REBASE = 25


def faults_at(task: str, nth: int) -> tuple[Fault, ...]:
    """Every fault of one request."""
    return (
        crash(before=ANY_CALL, nth=nth, task=task),
        crash(after=ANY_CALL, nth=nth, task=task),
        lose_answer(ANY_CALL, nth=nth, task=task),
        arrive_late(ANY_CALL, nth=nth, task=task),
    )


def cases_of_every_call() -> Iterator[RunCase]:
    """Every fault at every request of begin and of finish."""
    for name, calls in CALLS.items():
        for nth in range(1, calls + 1):
            for fault in faults_at(name, nth):
                yield RunCase(f"{type(fault).__name__} at call {nth} of {name}", (fault,))


def drains_at(task: str, nth: int) -> Mapping[str, tuple[Fault, ...]]:
    """The order to stop at one request, by what becomes of the request.

    It comes while the request is under way, when the answer is there, and while the request stays
    under way until the next worker has ended.
    """
    during = drain(before=ANY_CALL, nth=nth, task=task)
    return {
        "drained during": (during,),
        "drained after": (drain(after=ANY_CALL, nth=nth, task=task),),
        "drained, and late": (during, arrive_late(ANY_CALL, nth=nth, task=task)),
    }


def cases_of_every_drain() -> Iterator[RunCase]:
    """The order to stop at every request of begin, of finish, and of a finish that rebases."""
    for name, calls in CALLS.items():
        for nth in range(1, calls + 1):
            for what, faults in drains_at(name, nth).items():
                yield RunCase(f"{what} call {nth} of {name}", faults)
    for nth in range(1, CALLS_OF_A_REBASE + 1):
        for what, faults in drains_at(FINISH, nth).items():
            told = f"{what} call {nth} of a rebase"
            yield RunCase(told, (MOVED_EARLY, *faults), on_moved="rebase")


async def run_case(env: PeragoEnvironment, case: RunCase) -> int:
    """Run a case and check what came of it; how many workers handed their row back.

    A failure tells the whole story.
    """
    await env.register(load, mix, undo)
    repository = await env.repository("repo", BASE_FILES)
    base = (await repository.head()).commit
    if case.target != MAIN:
        await repository.create_branch(case.target)
    env.plan(*case.faults)
    given: dict[str, object] = {
        "workspace": await repository.workspace(),
        "params": {"songs_load": {}, "songs_mix": {}, "songs_undo": {}},
    }
    run = await env.start(_definition(case), given)
    await env.until_idle()
    await env.assert_sound()
    try:
        assert env.pending_faults == ()
        await _check(env, repository, run, case, base)
        if case.is_drained:
            await _check_that_no_attempt_failed(env, run)
    except AssertionError as error:
        error.add_note(f"{case.id}\n{await env.story_text()}")
        raise
    return sum(story.status == "HANDED_BACK" for story in env.attempts)


def _definition(case: RunCase) -> dict[str, object]:
    """The kit's transaction, finished in the way of the case."""
    definition = sequence("songs", load, undo if case.undone else mix, transaction=True)
    *steps, finish = map(as_mapping, as_list(definition["tasks"]))
    params = as_mapping(as_mapping(finish["inputParameters"])["params"])
    params = {**params, "on_moved": case.on_moved, "history": case.history}
    if case.target != MAIN:  # as a person edits it: an object in the place of the expression
        given = "perago_begin.output.result.run"
        parts = {part: f"${{{given}.{part}}}" for part in RunReference.model_fields}
        params["run"] = {**parts, "branch": case.target}
    return {**definition, "tasks": [*steps, {**finish, "inputParameters": {"params": params}}]}


async def _check_that_no_attempt_failed(env: PeragoEnvironment, run: WorkflowRun) -> None:
    """A deploy costs no retry: the worker hands its row back, or ends it although it was told."""
    rows = (await run.read()).attempts
    assert [(row.snapshot.status, row.snapshot.retry_count) for row in rows] == [
        ("COMPLETED", 0)
    ] * 4
    assert {story.status for story in env.attempts} <= {"COMPLETED", "HANDED_BACK"}


async def _check(
    env: PeragoEnvironment, repository: Repository, run: WorkflowRun, case: RunCase, base: str
) -> None:
    files = await repository.files()
    published = [each for each in await repository.history() if RUN in each.metadata]
    moved = any(fault in (MOVED_EARLY, MOVED, MOVED_LATE) for fault in case.faults)
    assert ("elsewhere/foreign.txt" in files) is moved
    assert files["other/b.txt"] == b"b"
    if case.refused:
        record = await run.read()
        assert record.status == "FAILED"
        assert case.refused in str(record.attempts[-1].reason)
        assert published == []
        assert "songs/mixed.txt" not in files
        assert (await repository.head(case.target)).commit == (await repository.head()).commit
        return
    await env.assert_completed(run)
    (commit,) = published
    assert commit.commit == await run.published("perago_finish")
    assert len(commit.parents) == (1 if case.history == "squash" else 2)
    assert (commit.parents[0] == base) is not moved
    made = {path: files[path] for path in files if path in {"songs/raw.txt", "songs/mixed.txt"}}
    mixed = {"songs/raw.txt": b"raw", "songs/mixed.txt": b"raw, mixed"}
    assert made == ({} if case.undone else mixed)
    assert files["songs/a.txt"] == b"a"
