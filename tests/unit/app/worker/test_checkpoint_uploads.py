"""Uploads beside a task function: one at a time, given up or finished when it ends."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import pytest
from tests.contract.task_bodies import call_of

from perago.app.worker.bodies import StopOrders, UploadingBody
from perago.ports.task_body import (
    BodyCall,
    BodyOutcome,
    BodyRaised,
    BodyReturned,
    BodyStopped,
    Checkpoints,
    CheckpointTerms,
    TaskBody,
)


@dataclass
class Scene(TaskBody):
    """A task function that does what a test says, and what was uploaded for it."""

    function: Callable[["Scene", Checkpoints], Awaitable[BodyOutcome]]
    said: list[str] = field(default_factory=list[str])
    may_end: asyncio.Event = field(default_factory=asyncio.Event)
    orders: StopOrders = field(default_factory=StopOrders)
    broken: Exception | None = None
    ignores_its_end: bool = False

    async def run(self, call: BodyCall) -> BodyOutcome:
        """Call it."""
        assert call.checkpoints is not None
        return await self.function(self, call.checkpoints)

    async def upload(self) -> None:
        """Take until the test lets it end."""
        self.said.append("began")
        if self.broken is not None:
            raise self.broken
        try:
            await self.may_end.wait()
        except asyncio.CancelledError:
            self.said.append("given up")
            if self.ignores_its_end:
                return
            raise
        self.said.append("ended")

    async def outcome(self) -> BodyOutcome:
        """Run one call to its end."""
        given = Checkpoints(CheckpointTerms(), self.upload)
        call = call_of("anything")
        return await UploadingBody(self, self.orders).run(
            BodyCall(
                call.task_name,
                call.attempt,
                call.execution_id,
                call.params,
                None,
                checkpoints=given,
            )
        )


async def test_a_copy_is_uploaded_while_the_function_runs() -> None:
    async def function(scene: Scene, checkpoints: Checkpoints) -> BodyOutcome:
        await asyncio.to_thread(checkpoints.taken)
        scene.may_end.set()
        await asyncio.sleep(0.05)
        assert scene.said == ["began", "ended"]
        return BodyReturned({})

    assert await asyncio.wait_for(Scene(function).outcome(), 5) == BodyReturned({})


async def test_copies_that_are_taken_meanwhile_are_one_more_upload() -> None:
    async def function(scene: Scene, checkpoints: Checkpoints) -> BodyOutcome:
        checkpoints.taken()
        await asyncio.sleep(0.01)
        assert scene.said == ["began"]
        for _ in range(3):
            checkpoints.taken()
        await asyncio.sleep(0.01)
        scene.may_end.set()
        await asyncio.sleep(0.01)
        return BodyReturned({})

    scene = Scene(function)
    await scene.outcome()
    assert scene.said == ["began", "ended"] * 2


async def test_an_upload_is_given_up_when_the_function_has_returned() -> None:
    async def function(scene: Scene, checkpoints: Checkpoints) -> BodyOutcome:
        checkpoints.taken()
        await asyncio.sleep(0.01)
        return BodyReturned({"number": len(scene.said)})

    scene = Scene(function)
    assert await scene.outcome() == BodyReturned({"number": 1})
    assert scene.said == ["began", "given up"]


async def test_an_upload_is_finished_when_the_function_has_failed() -> None:
    async def function(scene: Scene, checkpoints: Checkpoints) -> BodyOutcome:
        checkpoints.taken()
        await asyncio.sleep(0.01)
        asyncio.get_running_loop().call_later(0.01, scene.may_end.set)
        return BodyRaised("no more memory")

    scene = Scene(function)
    assert await scene.outcome() == BodyRaised("no more memory")
    assert scene.said == ["began", "ended"]


async def test_an_order_to_stop_leaves_no_time_for_an_upload() -> None:
    async def function(scene: Scene, checkpoints: Checkpoints) -> BodyOutcome:
        checkpoints.taken()
        await asyncio.sleep(0.01)
        scene.orders.stop(call_of("anything").execution_id, "drained")
        return BodyStopped("drained")

    scene = Scene(function)
    assert await asyncio.wait_for(scene.outcome(), 5) == BodyStopped("drained")
    assert scene.said == ["began", "given up"]


async def test_an_upload_is_given_up_with_the_attempt() -> None:
    async def function(scene: Scene, checkpoints: Checkpoints) -> BodyOutcome:
        checkpoints.taken()
        await asyncio.sleep(60)
        return BodyRaised(f"{scene} was not cancelled")

    scene = Scene(function)
    running = asyncio.create_task(scene.outcome())
    await asyncio.sleep(0.01)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert scene.said == ["began", "given up"]


async def test_a_thread_that_outlives_the_function_starts_no_upload() -> None:
    late: list[Callable[[], None]] = []

    async def function(scene: Scene, checkpoints: Checkpoints) -> BodyOutcome:
        late.append(checkpoints.taken)
        return BodyReturned({"said": scene.said})

    scene = Scene(function)
    await scene.outcome()
    late[0]()
    await asyncio.sleep(0.01)
    assert scene.said == []


async def test_a_copy_is_uploaded_after_an_upload_that_broke() -> None:
    async def function(scene: Scene, checkpoints: Checkpoints) -> BodyOutcome:
        scene.broken = OSError("the copy cannot be removed")
        checkpoints.taken()
        await asyncio.sleep(0.01)
        scene.broken = None
        scene.may_end.set()
        checkpoints.taken()
        await asyncio.sleep(0.01)
        return BodyReturned({})

    scene = Scene(function)
    assert await scene.outcome() == BodyReturned({})
    assert scene.said == ["began", "began", "ended"]


async def test_an_upload_that_outlasts_its_end_is_the_last_one() -> None:
    async def function(scene: Scene, checkpoints: Checkpoints) -> BodyOutcome:
        scene.ignores_its_end = True
        checkpoints.taken()
        await asyncio.sleep(0.01)
        checkpoints.taken()
        await asyncio.sleep(0.01)
        return BodyReturned({})

    scene = Scene(function)
    assert await asyncio.wait_for(scene.outcome(), 5) == BodyReturned({})
    assert scene.said == ["began", "given up"]
