"""One place for an executor: who is in it, which body runs, and how often it crashed.

Also what messages make of bodies, and bodies of messages. Starts and ends nothing.
"""

import asyncio
from dataclasses import dataclass
from typing import TypeAlias

from perago.app.worker import frames
from perago.app.worker.executor import Executor
from perago.ports.task_body import BodyCall, BodyOutcome, BodyRaised, BodyReturned, BodyStopped

EndFrame: TypeAlias = frames.Returned | frames.Raised | frames.Cancelled


@dataclass(slots=True, eq=False)
class ExecutorSlot:
    """One place for an executor; `crashes` counts since the last body that ended well."""

    number: int
    executor: Executor | None = None
    call: BodyCall | None = None
    ended: "asyncio.Future[BodyOutcome | None] | None" = None
    crashes: int = 0

    def give_up(self, _: object = None) -> None:
        """Wait no longer for the body to tell its end."""
        if self.ended is not None and not self.ended.done():
            self.ended.set_result(None)


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
