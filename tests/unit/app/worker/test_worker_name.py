"""What a worker calls itself to Conductor."""

from perago.adapters.system.host import SystemIdentities
from perago.app.worker.worker import CHARACTERS_MAX, worker_incarnation


def test_two_starts_of_one_container_within_a_minute_have_different_names() -> None:
    """Host and process id are the same then, and an execution id begins with the time."""
    identities = SystemIdentities()
    names = {worker_incarnation("songs", identities.new_execution_id()) for _ in range(100)}
    assert len(names) == 100


def test_a_long_prefix_cuts_nothing_off_the_end() -> None:
    first, second = (worker_incarnation("p" * 200, chance) for chance in ("a" * 32, "b" * 32))
    assert len(first) == CHARACTERS_MAX
    assert first != second
