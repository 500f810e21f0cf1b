"""How long each kind of leftover is kept, taken from the settings or from one wish."""

from datetime import timedelta

from perago.app.settings.settings import Settings
from perago.domain.retention import RetentionTimes

# A check of the fence takes seconds, and nothing but its age tells one under way from litter.
CHECK_TAKES_MAX = timedelta(minutes=10)


def retention_times(settings: Settings) -> RetentionTimes:
    """Ages by kind; those without a setting have their defaults."""
    return RetentionTimes(
        attempt_directory=settings.workspace_gc_ttl,
        staging_branch=settings.gc_staging_ttl,
        decision=settings.gc_tag_ttl,
    )


def one_age(age: timedelta) -> RetentionTimes:
    """`--older-than`: one age for every kind, except that a check under way is not disturbed."""
    return RetentionTimes(age, age, age, age, canary=max(age, CHECK_TAKES_MAX))
