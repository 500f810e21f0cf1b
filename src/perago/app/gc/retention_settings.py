"""How long each kind of leftover is kept, taken from the settings."""

from datetime import timedelta

from perago.app.settings.settings import Settings
from perago.domain.retention import RetentionTimes

CANARY_MAX = timedelta(hours=1)


def retention_times(settings: Settings) -> RetentionTimes:
    """Ages by kind; those without a setting have their defaults."""
    return RetentionTimes(
        attempt_directory=settings.workspace_gc_ttl,
        staging_branch=settings.gc_staging_ttl,
        decision=settings.gc_tag_ttl,
        canary=min(CANARY_MAX, settings.gc_staging_ttl),
    )
