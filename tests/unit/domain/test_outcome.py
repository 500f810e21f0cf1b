"""Outcomes and answers are closed sums; unknown is neither of the other two."""

from typing import get_args

from perago.domain.logical_execution import CommitId
from perago.domain.outcome import (
    MergeAnswer,
    NoAnswer,
    NotPublished,
    PublicationOutcome,
    Published,
    Relocated,
    RelocationAnswer,
    RelocationRefused,
    Unknown,
)


def test_an_outcome_is_published_not_published_or_unknown() -> None:
    assert get_args(PublicationOutcome) == (Published, NotPublished, Unknown)


def test_unknown_equals_neither_success_nor_failure() -> None:
    outcomes = [Published(CommitId("P")), NotPublished("PRG-F002", "P"), Unknown("P")]
    assert all(one != other for one in outcomes for other in outcomes if one is not other)


def test_every_request_may_stay_unanswered() -> None:
    assert NoAnswer in get_args(MergeAnswer)
    assert get_args(RelocationAnswer) == (Relocated, RelocationRefused, NoAnswer)


def test_a_refused_relocation_is_not_protection_unless_the_server_said_so() -> None:
    assert not RelocationRefused("no").protected
