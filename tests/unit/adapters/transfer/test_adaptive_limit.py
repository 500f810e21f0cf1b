"""How the number of requests under way follows the network: no clock, no network."""

from perago.adapters.transfer.adaptive_limit import ENOUGH, LEAST, START, AdaptiveLimit

MOST = 64


def serve(limit: AdaptiveLimit, *, seconds: float, rate_max: float, answers: int) -> float:
    """A server with a latency and a bound of answers a second; gives the time that passed."""
    now = 0.0
    for _ in range(answers):
        waited = max(seconds, limit.limit / rate_max)
        now += waited / limit.limit
        limit.answered(work=1.0, waited=waited, now=now)
    return now


def test_a_distant_server_is_asked_many_things_at_once() -> None:
    limit = AdaptiveLimit(MOST)
    serve(limit, seconds=0.02, rate_max=10_000, answers=2_000)
    assert limit.limit >= MOST * 3 // 4


def test_a_busy_server_is_not_asked_more_than_pays() -> None:
    limit = AdaptiveLimit(MOST, start=16)
    serve(limit, seconds=0.0005, rate_max=1_200, answers=5_000)
    assert limit.limit <= 32


def test_throttling_halves_once_for_all_answers_of_a_window() -> None:
    limit = AdaptiveLimit(MOST, start=32)
    for _ in range(10):
        limit.throttled()
    assert limit.limit == 16


def test_a_server_that_keeps_throttling_is_left_the_least() -> None:
    limit = AdaptiveLimit(MOST, start=32)
    for _ in range(40):
        limit.throttled()
        serve(limit, seconds=0.01, rate_max=1_000, answers=max(8, limit.limit))
    assert limit.limit <= LEAST * 2


def test_the_limit_recovers_after_a_burst_of_refusals() -> None:
    limit = AdaptiveLimit(MOST, start=32)
    limit.throttled()
    serve(limit, seconds=0.02, rate_max=10_000, answers=2_000)
    assert limit.limit > 32


def test_a_server_that_only_becomes_slow_is_still_asked_enough() -> None:
    limit = AdaptiveLimit(MOST)
    serve(limit, seconds=0.02, rate_max=10_000, answers=2_000)
    for _ in range(40):
        serve(limit, seconds=0.2, rate_max=100, answers=200)
    assert ENOUGH <= limit.limit <= START


def test_the_limit_stays_within_its_bounds() -> None:
    limit = AdaptiveLimit(1)
    serve(limit, seconds=0.02, rate_max=10_000, answers=1_000)
    assert limit.limit == LEAST
