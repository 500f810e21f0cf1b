"""What happens to an attempt, told to whoever listens: logs, bars, metrics, spans."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Protocol


class Phase(StrEnum):
    """The steps of one attempt, in their order."""

    STARTED = "started"
    POLICY = "policy"
    RESUMED = "resumed"
    TRANSFERRING = "transferring"
    MATERIALISED = "materialised"
    PRE_CHECKED = "pre-checked"
    BODY_ENDED = "body-ended"
    POST_CHECKED = "post-checked"
    COMPARED = "compared"
    FENCED = "fenced"
    STAGING = "staging"
    STAGED = "staged"
    DECIDED = "decided"
    PUBLISHED = "published"
    COMPLETED = "completed"
    CLEANED = "cleaned"
    ENDED = "ended"
    WARNED = "warned"


class Progress(Protocol):
    """A listener; it never raises and never decides.

    Laws (tests/contract/test_progress.py has one test for each, by name):

    G1 never_raises: facts of any kind, exceptions and unserialisable values included, are taken.
    """

    def phase(self, phase: Phase, facts: Mapping[str, object]) -> None:
        """One step ended, with what is known of it."""
        ...
