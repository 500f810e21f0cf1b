"""Laws of perago.ports.telemetry.DataEvents."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Protocol, final

import pytest
from openlineage.client import OpenLineageClient
from openlineage.client.client import Event
from openlineage.client.serde import Serde
from openlineage.client.transport import Transport
from tests.recordings import RememberedDataEvents

from perago.adapters.observability.open_lineage import OpenLineageEvents
from perago.ports.telemetry import DataEvent, DataEventKind, DataEvents, DataVersion

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


class Harness(Protocol):
    """One catalogue, and what it has."""

    @property
    def events(self) -> DataEvents:
        """The adapter."""
        ...

    def tasks(self) -> list[str]:
        """The task of every event that arrived."""
        ...


@final
class MemoryHarness:
    """The memory of a test."""

    def __init__(self) -> None:
        self.events = RememberedDataEvents()

    def tasks(self) -> list[str]:
        """As they were told."""
        return [each.task_name for each in self.events.events]


class KeptEvents(Transport):
    """What a catalogue is sent, as its JSON."""

    kind: str | None = "kept"

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []

    def emit(self, event: Event) -> None:
        """Keep it."""
        self.sent.append(json.loads(Serde.to_json(event)))


@final
class OpenLineageHarness:
    """The library, with a transport that keeps what it is given."""

    def __init__(self) -> None:
        self._kept = KeptEvents()
        self.events = OpenLineageEvents(OpenLineageClient(transport=self._kept), "team")

    def tasks(self) -> list[str]:
        """As the catalogue got them."""
        return [each["job"]["name"] for each in self._kept.sent]


HARNESSES: dict[str, Callable[[], Harness]] = {
    "memory": MemoryHarness,
    "openlineage": OpenLineageHarness,
}


@pytest.fixture(params=list(HARNESSES))
def harness(request: pytest.FixtureRequest) -> Harness:
    return HARNESSES[request.param]()


def event(task: str, text: str = "x") -> DataEvent:
    version = DataVersion(text, text, text, text)
    return DataEvent(
        kind=DataEventKind.FAIL,
        at=AT,
        execution_id=text,
        task_name=task,
        workflow_id=text,
        inputs=[version],
        outputs=[version],
        tags={text: text},
        error=text,
    )


def test_J1_never_raises(harness: Harness) -> None:
    for _ in range(2):
        for text in ("", "\x00", "ключ", "\udcff", "x" * 100_000, "lakefs://[", "a b"):
            harness.events.send(event("t", text))
        harness.events.close()


def test_J2_order_is_kept(harness: Harness) -> None:
    names = [f"t{number}" for number in range(100)]
    for name in names:
        harness.events.send(event(name))
    harness.events.close()
    assert harness.tasks() == names


def test_J3_close_hands_over(harness: Harness) -> None:
    harness.events.send(event("last"))
    harness.events.close()
    assert harness.tasks() == ["last"]
