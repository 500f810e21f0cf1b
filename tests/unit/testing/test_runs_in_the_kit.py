"""The kit serves begin and finish, and says what a run must never leave on its target."""

import json
from collections.abc import Callable
from typing import Literal

import pytest
from tests.people import reset_hard
from tests.run_cases import (
    CALLS,
    CALLS_OF_A_REBASE,
    CASES,
    DRAINED,
    FINISH,
    MOVED_EARLY,
    RunCase,
    cases_of_every_call,
    faults_at,
    load,
    mix,
    run_case,
)

from perago.testing import Fault, MemoryServers, PeragoEnvironment, fork, sequence

Definitions = dict[str, object] | list[dict[str, object]]
FLOW = sequence("songs", load, mix, transaction=True)
INPUT: dict[str, object] = {"params": {"songs_load": {}, "songs_mix": {}}}


@pytest.mark.parametrize("case", [*CASES, *DRAINED], ids=lambda case: case.id)
async def test_a_workflow_is_one_transaction(case: RunCase) -> None:
    with PeragoEnvironment() as env:
        await run_case(env, case)


@pytest.mark.parametrize(
    ("task", "calls", "before"),
    [
        *((task, calls, ()) for task, calls in CALLS.items()),
        (FINISH, CALLS_OF_A_REBASE, (MOVED_EARLY,)),
    ],
)
async def test_every_request_of_a_run_has_its_faults(
    task: str, calls: int, before: tuple[Fault, ...]
) -> None:
    last, one_more = ((*before, faults_at(task, nth)[0]) for nth in (calls, calls + 1))
    with PeragoEnvironment() as env:
        await run_case(env, RunCase("the last request", last, on_moved="rebase"))
    with PeragoEnvironment() as env, pytest.raises(AssertionError, match="one more"):
        await run_case(env, RunCase("one more", one_more, on_moved="rebase"))


@pytest.mark.scale
async def test_every_fault_at_every_request_publishes_the_run_once() -> None:
    for case in cases_of_every_call():
        with PeragoEnvironment() as env:
            await run_case(env, case)


@pytest.mark.parametrize("copied", ["songs.mix", "perago.finish"])
async def test_a_part_of_a_run_and_a_second_copy_of_it_are_seen_on_the_target(copied: str) -> None:
    servers = MemoryServers()
    with PeragoEnvironment(servers=servers) as env:
        await env.register(load, mix)
        repository = await env.repository("repo", {"songs/a.txt": "a"})
        run = await env.start(FLOW, {**INPUT, "workspace": await repository.workspace()})
        await env.until_idle()
        (original, *_) = await repository.history(await run.published(copied.replace(".", "_")))
        builder = servers.builders[repository.id]
        builder.commit({"songs/copy": b"x"}, metadata=original.metadata)
        broken = {text.split(":")[0] for text in await env.check_invariants()}
        what = "repeated" if copied == "perago.finish" else "partial"
        assert broken == {what, "abandoned"}


async def test_tasks_whose_run_and_branch_are_gone_are_lost() -> None:
    servers = MemoryServers()
    with PeragoEnvironment(servers=servers) as env:
        await env.register(load, mix)
        repository = await env.repository("repo", {"songs/a.txt": "a"})
        start = (await repository.head()).commit
        await env.start(FLOW, {**INPUT, "workspace": await repository.workspace()})
        await env.until_idle()
        reset_hard(servers.builders[repository.id], start)
        broken = await env.check_invariants()
        assert len(broken) == 3
        assert all(text.startswith("lost: ") for text in broken)


def step(name: str, reference: str, **given: object) -> dict[str, object]:
    """A task of a definition."""
    given = {"params": {}, **given}
    row: dict[str, object] = {"name": name, "taskReferenceName": reference, "type": "SIMPLE"}
    return {**row, "inputParameters": given}


def begin(reference: str, repository: str, branch: str = "main") -> dict[str, object]:
    """The begin of a run."""
    params = {"repository": repository, "branch": branch}
    return step("perago.begin", f"begin_{reference}", params=params)


def finish(reference: str, workspace: str) -> dict[str, object]:
    """Its finish."""
    params = {"run": f"${{begin_{reference}.output.result.run}}", "workspace": workspace}
    return step("perago.finish", f"finish_{reference}", params=params)


async def test_a_workflow_has_runs_in_two_repositories_and_a_run_inside_a_run() -> None:
    """The inner one shows the outer one its tasks as a whole, and the target sees neither."""
    outer = "${begin_outer.output.result.run.run_branch}"
    tasks = [
        begin("outer", "${workflow.input.songs}"),
        begin("inner", "${workflow.input.songs}", outer),
        begin("other", "${workflow.input.other}"),
        step("songs.load", "load", workspace="${begin_inner.output.result.workspace}"),
        step("songs.load", "load_other", workspace="${begin_other.output.result.workspace}"),
        finish("inner", "${load.output.workspace}"),
        step("songs.mix", "mix", workspace="${finish_inner.output.result.workspace}"),
        finish("outer", "${mix.output.workspace}"),
        finish("other", "${load_other.output.workspace}"),
    ]
    flow = {"name": "nested", "version": 1, "schemaVersion": 2, "tasks": tasks}
    with PeragoEnvironment() as env:
        await env.register(load, mix)
        songs = await env.repository("songs", {"songs/a.txt": "a"})
        other = await env.repository("other", {"songs/a.txt": "a"})
        run = await env.start(flow, {"songs": songs.id, "other": other.id})
        await env.until_idle()
        await env.assert_completed(run)
        await env.assert_sound()
        for repository, files in ((songs, {"raw.txt", "mixed.txt"}), (other, {"raw.txt"})):
            assert set(await repository.files()) >= {f"songs/{name}" for name in files}
            (published, *_) = await repository.history()
            assert len(published.parents) == 2


@pytest.mark.parametrize(
    ("on_moved", "status"), [("rebase", "COMPLETED"), ("refuse", "FAILED"), (None, "FAILED")]
)
async def test_a_written_workflow_does_what_was_asked_where_the_target_has_moved(
    on_moved: Literal["refuse", "rebase"] | None, status: str
) -> None:
    flow = sequence("songs", load, mix, transaction=True, on_moved=on_moved)
    side_by_side, *_ = fork("sides", load, transaction=True, on_moved=on_moved)
    assert (f'"on_moved": "{on_moved}"' in json.dumps(side_by_side)) is (on_moved is not None)
    with PeragoEnvironment() as env:
        await env.register(load, mix)
        repository = await env.repository("repo", {"songs/a.txt": "a", "elsewhere/x.txt": "x"})
        env.plan(MOVED_EARLY)
        run = await env.start(flow, {**INPUT, "workspace": await repository.workspace()})
        await env.until_idle()
        assert await run.status() == status


@pytest.mark.parametrize("write", [sequence, fork])
def test_only_a_transaction_looks_whether_the_target_has_moved(
    write: Callable[..., Definitions],
) -> None:
    with pytest.raises(ValueError, match="needs transaction=True"):
        write("songs", load, mix, on_moved="rebase")
