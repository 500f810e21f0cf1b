"""Makes a broken schedule small: leaves out differences as long as the same invariant breaks."""

from collections.abc import Mapping

from tests.simulation.choices import Differences, ReplayedChoices
from tests.simulation.engine import Engine, Ran
from tests.simulation.mix import Mix

RUNS_MAX = 600


def shrink(mix: Mix, ran: Ran) -> Ran:
    """A schedule that breaks the same invariant with as few differences as were found."""
    assert ran.broken is not None, "only broken schedules are shrunk"
    number, smallest = ran.broken.number, ran
    differences = dict(ran.differences)
    runs, at = 0, 0
    while at < len(differences) and runs < RUNS_MAX:
        # The last ones first: what comes early decides what the later addresses mean.
        address = list(reversed(differences))[at]
        tried = _run(mix, {key: value for key, value in differences.items() if key != address})
        runs += 1
        if tried.broken is not None and tried.broken.number == number:
            smallest, differences, at = tried, dict(tried.differences), 0
        else:
            at += 1
    return smallest


def _run(mix: Mix, differences: Mapping[str, str]) -> Ran:
    return Engine(mix, ReplayedChoices(differences)).run()


def replay(mix: Mix, differences: Differences) -> Ran:
    """The same schedule again, told in words."""
    return Engine(mix, ReplayedChoices(differences), tells=True).run()
