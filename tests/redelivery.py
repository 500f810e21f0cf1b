"""A row that runs goes back to its queue, as an operator or a server may put it there."""

from perago.domain.attempt import AttemptRecord
from perago.ports.conductor import HandBack, TaskQueue

ANSWER_SECONDS = 40.0  # as in the contract suites: a busy server answers late


async def release(queue: TaskQueue, record: AttemptRecord) -> None:
    """Put it back without a word, so that the next poll gets the same row."""
    given = HandBack(record.snapshot, record.snapshot.worker_id)
    await queue.hand_back(given, timeout_seconds=ANSWER_SECONDS)
