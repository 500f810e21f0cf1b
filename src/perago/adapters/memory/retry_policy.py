"""How long a retry waits: the three back-offs, the cap, the jitter.

Knows no clock; the fraction for the jitter is given.
"""

from typing import assert_never

from perago.adapters.memory.task_settings import RetryLogic, TaskSettings

MILLISECONDS_PER_SECOND = 1000


def retry_delay_ms(settings: TaskSettings, retries_before: int, fraction: float) -> int:
    """Milliseconds before the next attempt may be polled.

    FIXED                d
    LINEAR_BACKOFF       d * scale * (n + 1)
    EXPONENTIAL_BACKOFF  d * 2^n
    then capped by maxRetryDelaySeconds unless that is 0, plus up to backoffJitterMs.
    """
    delay = settings.retry_delay_seconds
    match settings.retry_logic:
        case RetryLogic.FIXED:
            seconds = delay
        case RetryLogic.LINEAR_BACKOFF:
            seconds = delay * settings.backoff_scale_factor * (retries_before + 1)
        case RetryLogic.EXPONENTIAL_BACKOFF:
            seconds = delay * 2**retries_before
        case _:
            assert_never(settings.retry_logic)
    if settings.max_retry_delay_seconds > 0:
        seconds = min(seconds, settings.max_retry_delay_seconds)
    return seconds * MILLISECONDS_PER_SECOND + int(settings.backoff_jitter_ms * fraction)
