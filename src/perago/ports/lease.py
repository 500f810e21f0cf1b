"""The heartbeats of one attempt, and what they reveal."""

from typing import Protocol


class Lease(Protocol):
    """The lease of one attempt: one sender, joined before any terminal update.

    Laws (tests/contract/test_lease.py has one test for each, by name):

    L1 end_joins_the_sender: after `end` no heartbeat is under way and none follows.
    L2 end_is_idempotent: ending twice succeeds.
    L3 last_beat_is_the_last_that_was_answered: it tells when that one was sent; before the first
       beat, when the lease began.
    """

    @property
    def last_beat(self) -> float | None:
        """Monotonic seconds from which the lease counts; None where nothing beats."""
        ...

    async def end(self) -> None:
        """Stop the heartbeats and wait for the one under way."""
        ...
