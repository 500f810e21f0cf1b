"""One place for an executor: who is in it, which body runs, and how often it crashed.

Also what messages make of bodies, and bodies of messages. Starts and ends nothing.
"""

import asyncio
from dataclasses import dataclass
from typing import TypeAlias, final

from perago.app.worker import frames
from perago.app.worker.executor import Executor
from perago.ports.task_body import BodyCall, BodyOutcome, BodyRaised, BodyReturned, BodyStopped

EndFrame: TypeAlias = frames.Returned | frames.Raised | frames.Cancelled


@final
class RunningBody:
    """One body in an executor, from the moment it has a slot until the slot is free again.

    Whatever ends the waiting (its answer, its limit, its order to stop, the executor's death) ends
    the waiting of this body only, because each of them holds this object and not the slot.
    """

    def __init__(self, call: BodyCall) -> None:
        self.call = call
        self.ended: asyncio.Future[BodyOutcome | None] = asyncio.get_running_loop().create_future()

    def give_up(self, _: object = None) -> None:
        """Wait no longer for the body to tell its end."""
        if not self.ended.done():
            self.ended.set_result(None)

    def take_end(self, frame: EndFrame) -> bool:
        """Take the end of this body; the late end of an earlier body is dropped."""
        if frame.execution_id != self.call.execution_id or self.ended.done():
            return False
        self.ended.set_result(outcome_of(frame))
        return True


@dataclass(slots=True, eq=False)
class ExecutorSlot:
    """One place for an executor; `crashes` counts since the last body that ended well."""

    number: int
    executor: Executor | None = None
    body: RunningBody | None = None
    crashes: int = 0

    @property
    def call(self) -> BodyCall | None:
        """The call that has this slot."""
        return None if self.body is None else self.body.call

    @property
    def is_idle(self) -> bool:
        """Whether a body may begin here.

        Computed and kept nowhere, because a list of idle slots beside the slots came to hold a
        slot twice after its executor had died idle, and two bodies shared one executor.
        """
        lives = self.executor is not None and not self.executor.exited.done()
        return lives and self.body is None


def run_frame(call: BodyCall, worker_id: str) -> frames.RunBody:
    """The message that runs this call."""
    workspace = None if call.workspace is None else str(call.workspace)
    return frames.RunBody(
        execution_id=call.execution_id,
        task_name=call.task_name,
        attempt=call.attempt,
        params=call.params,
        workspace=workspace,
        worker_id=worker_id,
        spark=call.spark,
    )


def outcome_of(frame: EndFrame) -> BodyOutcome:
    """What the message says of the body."""
    match frame:
        case frames.Returned(_, result):
            return BodyReturned(result)
        case frames.Raised(_, reason, terminal, traceback):
            return BodyRaised(reason, terminal, traceback)
        case frames.Cancelled():
            return BodyStopped("the body was ended by a signal")
