"""How a body ended, as it can be sent: what JSON or Conductor cannot carry is the body's failure.

The same in an executor and in a thread, so that a result has one fate. Sends nothing itself.
"""

from perago.app.worker import frames
from perago.ports.task_body import BodyCall, BodyOutcome, BodyRaised, BodyReturned, BodyStopped

# Above this, Conductor ends the task for good and answers 200.
RESULT_BYTES_MAX = 10 * 1024 * 1024


def sent_outcome(call: BodyCall, outcome: BodyOutcome) -> tuple[bytes, BodyOutcome]:
    """The message for the parent, and the outcome that it stands for."""
    try:
        return frames.encode(_frame_of(call.execution_id, outcome), RESULT_BYTES_MAX), outcome
    except frames.FrameError as error:
        failed = BodyRaised(f"result of the task cannot be sent: {error} [PRG-R002]")
        return frames.encode(_frame_of(call.execution_id, failed)), failed


def _frame_of(execution_id: str, outcome: BodyOutcome) -> frames.Frame:
    match outcome:
        case BodyReturned(result):
            return frames.Returned(execution_id, result)
        case BodyRaised(reason, terminal, traceback):
            return frames.Raised(execution_id, reason, terminal, traceback)
        case BodyStopped():
            return frames.Cancelled(execution_id)
