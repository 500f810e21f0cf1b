"""Which repositories the attempts of this worker worked in: those its garbage collection visits."""

from collections.abc import Mapping
from typing import cast, final

from perago.app.attempt.dispatch import Dispatch
from perago.app.attempt.run_attempt import AttemptReport
from perago.app.telemetry.listeners import AttemptListener
from perago.domain.attempt_fence import Stale
from perago.domain.references import RepositoryId
from perago.ports.progress import Phase


@final
class SeenRepositories(AttemptListener):
    """Remembers names from the inputs of attempts that got as far as a policy."""

    def __init__(self) -> None:
        self.names: set[RepositoryId] = set()

    def phase(
        self, dispatch: Dispatch, phase: Phase, facts: Mapping[str, object], seconds: float
    ) -> None:
        """The input is valid once there is a policy."""
        del facts, seconds
        if phase is Phase.POLICY:
            given = cast("Mapping[str, object]", dispatch.record.input_data["workspace"])
            self.names.add(RepositoryId(str(given["repository"])))

    def lost(self, dispatch: Dispatch, stale: Stale) -> None:
        """Nothing to remember."""

    def ended(self, dispatch: Dispatch, report: AttemptReport, seconds: float) -> None:
        """Nothing to remember."""

    def warned(self, text: str, why: str) -> None:
        """Nothing to remember."""
