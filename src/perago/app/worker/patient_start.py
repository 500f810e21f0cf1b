"""The patience of a worker that starts while Conductor is away.

It waits as an attempt does, before its first poll. `StartWait` says so in the log, in a metric and
to the probes: whoever looks finds a worker that lives, is not ready, and names what it waits for.
"""

import logging
from collections.abc import Mapping
from typing import cast, final

from perago.app.attempt.context import AttemptPorts
from perago.app.attempt.patience import NoStopOrder, Patience, PatienceTerms
from perago.app.telemetry.listeners import write
from perago.app.telemetry.metrics import SERVICE_WAIT, Samples
from perago.ports.workspace import Phase, Progress

LOGGER = logging.getLogger("perago.worker")


@final
class StartWait(Progress):
    """Hears what one start waits for."""

    def __init__(self, samples: Samples) -> None:
        self._samples = samples
        self._service = ""
        self.has_waited = False

    def lines(self) -> list[str]:
        """A line of `/readyz` while it waits."""
        return [f"the start of this worker waits for {self._service}"] if self._service else []

    def phase(self, phase: Phase, facts: Mapping[str, object]) -> None:
        """A wait that lasts, or its end."""
        service = str(facts["service"])
        if phase is Phase.WAITING:
            self._service, self.has_waited = service, True
            write(LOGGER, logging.WARNING, "worker waiting", facts)
            return
        self._service = ""
        # No task waits here, and Prometheus reads an empty label as none.
        labels = {"task_name": "", "service": service}
        self._samples.observe(SERVICE_WAIT, labels, cast("float", facts["waited_seconds"]))
        write(LOGGER, logging.INFO, "worker waited", facts)


def patience_of_start(ports: AttemptPorts, seconds_max: float, heard: StartWait) -> Patience:
    """One patience for all that a start asks; a signal cancels the start and so its waiting."""
    return Patience(
        PatienceTerms(
            clock=ports.clock,
            fraction=ports.identities.fraction,
            seconds_max=seconds_max,
            lease=None,
            lease_seconds=0,
            began=0,
            stop_order=NoStopOrder(),
            progress=heard,
            lakefs_is_away=lambda _: None,
        )
    )
