"""The publish budget: how long a merge, a completion and a shutdown may take, and the lease.

Numbers only; who waits with them is not known here.
"""

from dataclasses import dataclass

MERGE_TIMEOUT_SECONDS_WITHOUT_BUDGET = 60.0
COMPLETION_TIMEOUT_SECONDS_WITHOUT_BUDGET = 60.0
SHUTDOWN_GRACE_SECONDS_WITHOUT_BUDGET = 30.0
LEASE_FRACTION = 3


@dataclass(frozen=True, slots=True)
class PublishBudget:
    """Six whole seconds of a task's author; validated where they are declared."""

    observed_merge_p99_seconds: int
    safety_margin_seconds: int
    lakefs_merge_timeout_seconds: int
    conductor_completion_timeout_seconds: int
    worker_shutdown_grace_seconds: int
    heartbeat_interval_seconds: int

    @property
    def response_timeout_seconds(self) -> int:
        """The shortest response time-out in which a publication surely fits."""
        return (
            self.lakefs_merge_timeout_seconds
            + self.conductor_completion_timeout_seconds
            + self.worker_shutdown_grace_seconds
            + self.heartbeat_interval_seconds
        )


def merge_timeout_seconds(budget: PublishBudget | None) -> float:
    """How long one effect may stay unanswered, and how long it may take to settle."""
    if budget is None:
        return MERGE_TIMEOUT_SECONDS_WITHOUT_BUDGET
    return float(budget.lakefs_merge_timeout_seconds)


def completion_timeout_seconds(budget: PublishBudget | None) -> float:
    """How long the terminal update may be tried."""
    if budget is None:
        return COMPLETION_TIMEOUT_SECONDS_WITHOUT_BUDGET
    return float(budget.conductor_completion_timeout_seconds)


def shutdown_grace_seconds(budget: PublishBudget | None) -> float:
    """How long a draining worker lets this task finish."""
    if budget is None:
        return SHUTDOWN_GRACE_SECONDS_WITHOUT_BUDGET
    return float(budget.worker_shutdown_grace_seconds)


def heartbeat_seconds(response_timeout_seconds: float, budget: PublishBudget | None) -> float:
    """The pause between two heartbeats: a third of the lease, or what the budget asks if less."""
    third = response_timeout_seconds / LEASE_FRACTION
    if budget is None:
        return third
    return min(third, float(budget.heartbeat_interval_seconds))
