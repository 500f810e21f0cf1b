"""What OpenLineage's library sends: the core schema, names of datasets; it holds up no attempt."""

import json
import logging
import threading
import time
import uuid
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import jsonschema
import pytest
from openlineage.client import OpenLineageClient
from openlineage.client.client import Event
from openlineage.client.serde import Serde
from openlineage.client.transport import Transport

from perago.adapters.observability import open_lineage
from perago.adapters.observability.open_lineage import OpenLineageEvents, run_event
from perago.ports.telemetry import DataEvent, DataEventKind, DataVersion

# What version 2-0-2 of OpenLineage's core schema asks of an event of a run, in our words.
FACETS = {
    "type": "object",
    "additionalProperties": {
        "type": "object",
        "required": ["_producer", "_schemaURL"],
        "properties": {
            "_producer": {"type": "string", "format": "uri"},
            "_schemaURL": {"type": "string", "format": "uri"},
        },
    },
}
DATASETS = {
    "type": "array",
    "items": {
        "type": "object",
        "required": ["namespace", "name"],
        "properties": {
            "namespace": {"type": "string", "minLength": 1},
            "name": {"type": "string", "minLength": 1},
            "facets": FACETS,
        },
    },
}
RUN_EVENT = {
    "type": "object",
    "required": ["eventTime", "producer", "schemaURL", "run", "job"],
    "properties": {
        "eventType": {"enum": ["START", "RUNNING", "COMPLETE", "ABORT", "FAIL", "OTHER"]},
        "eventTime": {"type": "string", "format": "date-time"},
        "producer": {"type": "string", "format": "uri"},
        "schemaURL": {"type": "string", "pattern": "OpenLineage.json#/.defs/RunEvent$"},
        "run": {
            "type": "object",
            "required": ["runId"],
            "properties": {"runId": {"type": "string", "format": "uuid"}, "facets": FACETS},
        },
        "job": {
            "type": "object",
            "required": ["namespace", "name"],
            "properties": {
                "namespace": {"type": "string", "minLength": 1},
                "name": {"type": "string", "minLength": 1},
                "facets": FACETS,
            },
        },
        "inputs": DATASETS,
        "outputs": DATASETS,
    },
}
EVENT = DataEvent(
    kind=DataEventKind.COMPLETE,
    at=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
    execution_id=uuid.UUID(int=7).hex,
    task_name="clean",
    workflow_id=str(uuid.UUID(int=8)),
    inputs=[DataVersion("songs", "main", "c1", "texts/a")],
    outputs=[DataVersion("songs", "main", "c2", "texts/a")],
    tags={"perago.code_version": "abc"},
)


def sent(event: DataEvent) -> dict[str, Any]:
    """The event as JSON."""
    found: dict[str, Any] = json.loads(Serde.to_json(run_event(event, "team")))
    return found


def check(event: dict[str, Any]) -> None:
    """Raise unless the core schema holds."""
    formats = jsonschema.Draft202012Validator.FORMAT_CHECKER
    jsonschema.validate(event, RUN_EVENT, format_checker=formats)


@pytest.mark.parametrize("kind", list(DataEventKind))
def test_an_event_keeps_the_core_schema(kind: DataEventKind) -> None:
    check(sent(replace(EVENT, kind=kind, error="it broke")))
    with pytest.raises(jsonschema.ValidationError):  # the schema above can fail
        check(sent(EVENT) | {"eventType": "END"})


def test_a_dataset_has_one_name_for_all_its_commits() -> None:
    told = sent(EVENT)
    (source,), (target,) = told["inputs"], told["outputs"]
    assert (source["namespace"], source["name"]) == ("lakefs://songs", "main/texts/a")
    assert (target["namespace"], target["name"]) == (source["namespace"], source["name"])
    assert source["facets"]["version"]["datasetVersion"] == "c1"
    assert target["facets"]["version"]["datasetVersion"] == "c2"
    assert target["facets"]["dataSource"]["uri"] == "lakefs://songs/main@c2/texts/a"


def test_the_root_of_a_branch_is_named_by_the_branch() -> None:
    (root,) = sent(replace(EVENT, inputs=[DataVersion("songs", "main", "c1", "")]))["inputs"]
    assert root["name"] == "main"
    assert root["facets"]["dataSource"]["uri"] == "lakefs://songs/main@c1"


def test_an_attempt_is_a_run_below_its_workflow() -> None:
    told = sent(replace(EVENT, kind=DataEventKind.FAIL, error="it broke"))
    assert told["eventType"] == "FAIL"
    assert told["run"]["runId"] == str(uuid.UUID(int=7))
    assert told["run"]["facets"]["parent"]["run"]["runId"] == str(uuid.UUID(int=8))
    assert told["run"]["facets"]["errorMessage"]["message"] == "it broke"
    assert told["run"]["facets"]["tags"]["tags"][0]["value"] == "abc"
    assert told["job"] == {"namespace": "team", "name": "clean", "facets": {}}


class Held(Transport):
    """A catalogue that does not answer until it is let go."""

    kind: str | None = "held"

    def __init__(self) -> None:
        self.go = threading.Event()
        self.taken = 0

    def emit(self, event: Event) -> None:
        """Answer late."""
        del event
        self.go.wait(30)
        self.taken += 1


class Refusing(Transport):
    """A catalogue that is away."""

    kind: str | None = "refusing"

    def emit(self, event: Event) -> None:
        """Answer nothing."""
        del event
        raise ConnectionError("refused")


def test_a_catalogue_that_hangs_holds_up_no_attempt(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(open_lineage, "EVENTS_WAITING_MAX", 10)
    monkeypatch.setattr(open_lineage, "CLOSE_SECONDS_MAX", 0.2)
    held = Held()
    events = OpenLineageEvents(OpenLineageClient(transport=held), "team")
    began = time.monotonic()
    for _ in range(100):
        events.send(EVENT)
    events.close()
    assert time.monotonic() - began < 10  # the catalogue takes 30
    assert caplog.messages.count("the catalogue takes events too slowly; some are dropped") == 1
    assert "did not take the last events" in caplog.text
    held.go.set()


def test_a_catalogue_that_is_away_is_a_warning_and_not_one_for_each_event(
    caplog: pytest.LogCaptureFixture,
) -> None:
    events = OpenLineageEvents(OpenLineageClient(transport=Refusing()), "team")
    for _ in range(5):
        events.send(EVENT)
    events.close()
    warnings = [each for each in caplog.records if each.levelno == logging.WARNING]
    assert [each.getMessage() for each in warnings] == [
        "the catalogue did not take an event: refused"
    ]
