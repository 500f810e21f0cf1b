"""The kit serves begin and finish, and says what a run must never leave on its target."""

from pathlib import Path

import pytest
from pydantic import BaseModel

from perago import WorkspaceSpec, task
from perago.domain.commit_metadata import RUN
from perago.testing import (
    Fault,
    MemoryServers,
    PeragoEnvironment,
    crash,
    foreign_commit,
    lose_answer,
    sequence,
    zombie,
)


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


FLOW = sequence("songs", load, mix, transaction=True)
INPUT: dict[str, object] = {"params": {"songs_load": {}, "songs_mix": {}}}
FAULTS: dict[str, list[Fault]] = {
    "nothing goes wrong": [],
    "begin dies": [crash(after="tags.create", task="perago.begin")],
    "finish dies before it publishes": [crash(before="merge", task="perago.finish")],
    "finish dies after it has published": [crash(after="merge", task="perago.finish")],
    "the answer to the merge is lost": [lose_answer("merge", task="perago.finish")],
    "finish is a zombie": [zombie(task="perago.finish")],
    "a task of the run dies after its publication": [crash(after="merge", task="songs.mix")],
}


@pytest.mark.parametrize("faults", FAULTS.values(), ids=FAULTS)
async def test_a_workflow_is_one_transaction(faults: list[Fault]) -> None:
    with PeragoEnvironment() as env:
        await env.register(load, mix)
        repository = await env.repository("repo", {"songs/a.txt": "a"})
        env.plan(*faults)
        run = await env.start(FLOW, {**INPUT, "workspace": await repository.workspace()})
        await env.until_idle()
        await env.assert_completed(run)
        await env.assert_sound()
        assert env.pending_faults == ()
        head, *_ = await repository.history()
        assert head.commit == await run.published("perago_finish")
        assert RUN in head.metadata
        assert (await repository.files())["songs/mixed.txt"] == b"raw, mixed"


async def test_a_run_that_is_refused_leaves_nothing_on_the_target() -> None:
    with PeragoEnvironment() as env:
        await env.register(load, mix)
        repository = await env.repository("repo", {"songs/a.txt": "a"})
        env.plan(foreign_commit(before="decide", task="perago.finish"))
        env.plan(foreign_commit(after="commits.first_parents", task="perago.begin"))
        run = await env.start(FLOW, {**INPUT, "workspace": await repository.workspace()})
        await env.until_idle()
        await env.assert_sound()
        assert (await run.read()).status == "FAILED"
        assert "songs/raw.txt" not in await repository.files()


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
        servers.builders[repository.id].reset_hard(start)
        broken = await env.check_invariants()
        assert len(broken) == 3
        assert all(text.startswith("lost: ") for text in broken)
