"""The pauses before retries, as a table."""

import pytest

from perago.adapters.memory.conductor_rows import retry_delay_ms, task_settings


@pytest.mark.parametrize(
    ("logic", "more", "seconds"),
    [
        ("FIXED", {}, [3, 3, 3, 3]),
        ("LINEAR_BACKOFF", {}, [3, 6, 9, 12]),
        ("LINEAR_BACKOFF", {"backoffScaleFactor": 2}, [6, 12, 18, 24]),
        ("LINEAR_BACKOFF", {"maxRetryDelaySeconds": 7}, [3, 6, 7, 7]),
        ("EXPONENTIAL_BACKOFF", {}, [3, 6, 12, 24]),
        ("EXPONENTIAL_BACKOFF", {"backoffScaleFactor": 5}, [3, 6, 12, 24]),
        ("EXPONENTIAL_BACKOFF", {"maxRetryDelaySeconds": 10}, [3, 6, 10, 10]),
        ("FIXED", {"retryDelaySeconds": 0}, [0, 0, 0, 0]),
    ],
    ids=str,
)
def test_the_table(logic: str, more: dict[str, object], seconds: list[int]) -> None:
    definition = {"retryLogic": logic, "retryDelaySeconds": 3, **more}
    settings = task_settings("any", definition)
    assert [retry_delay_ms(settings, n, 0.5) for n in range(4)] == [s * 1000 for s in seconds]


@pytest.mark.parametrize(("fraction", "extra_ms"), [(0.0, 0), (0.5, 125), (0.999, 249)])
def test_the_jitter_comes_on_top_of_the_cap(fraction: float, extra_ms: int) -> None:
    definition = {"retryDelaySeconds": 60, "maxRetryDelaySeconds": 10, "backoffJitterMs": 250}
    assert retry_delay_ms(task_settings("any", definition), 0, fraction) == 10_000 + extra_ms
