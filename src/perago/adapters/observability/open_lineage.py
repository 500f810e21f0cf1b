"""OpenLineage: which data an attempt reads and publishes, told to a catalogue.

The library reads its own standard variables (`OPENLINEAGE_URL`, `OPENLINEAGE_CONFIG`,
`OPENLINEAGE__TRANSPORT__...`) and sends. Needs the extra `openlineage`.
"""

import logging
import os
import uuid
from contextlib import suppress
from queue import Empty, Full, Queue
from threading import Thread
from typing import final

from openlineage.client import OpenLineageClient, event_v2, facet_v2

from perago._version import __version__
from perago.ports.telemetry import DataEvent, DataEvents, DataVersion

LOGGER = logging.getLogger("perago.telemetry")
# Two events an attempt: a catalogue that is away for minutes costs a worker at most a few MB. What
# comes on top is dropped, because an attempt must never wait for a catalogue.
EVENTS_WAITING_MAX = 2_000
# As for spans: a catalogue that is gone must not hold a worker that has drained.
CLOSE_SECONDS_MAX = 3.0
NAMESPACE_VARIABLE = "OPENLINEAGE_NAMESPACE"  # the library's integrations read it for their jobs
WORKFLOW = "conductor-workflow"  # the job of the parent run: an attempt does not know its type
_PRODUCER = f"urn:perago:{__version__}"


@final
class OpenLineageEvents(DataEvents):
    """Sends from one thread, so that the order is kept and no attempt waits."""

    def __init__(self, client: OpenLineageClient, namespace: str) -> None:
        self._client = client
        self._namespace = namespace
        self._queue: Queue[DataEvent | None] = Queue(EVENTS_WAITING_MAX)
        self._failing = False
        # A daemon: a catalogue that takes for ever to answer must not keep the process alive.
        self._thread = Thread(target=self._send_all, name="perago-openlineage", daemon=True)
        self._thread.start()

    def send(self, event: DataEvent) -> None:
        with suppress(Full):
            self._queue.put_nowait(event)
            return
        self._warn("the catalogue takes events too slowly; some are dropped")

    def close(self) -> None:
        with suppress(Full):
            self._queue.put(None, timeout=CLOSE_SECONDS_MAX)
        self._thread.join(CLOSE_SECONDS_MAX)
        if self._thread.is_alive():
            text = "the catalogue did not take the last events within %g seconds"
            LOGGER.warning(text, CLOSE_SECONDS_MAX)

    def _send_all(self) -> None:
        while (event := self._queue.get()) is not None:
            try:
                self._client.emit(run_event(event, self._namespace))
                self._failing = False
            except Exception as error:  # noqa: BLE001 - a lost event is no reason to fail
                self._warn(f"the catalogue did not take an event: {error}")
        with suppress(Exception):
            self._client.close(CLOSE_SECONDS_MAX)
        with suppress(Empty):  # what is sent after the end is dropped
            while True:
                self._queue.get_nowait()

    def _warn(self, text: str) -> None:
        """Once until the next success: a catalogue that is away fails every event."""
        if not self._failing:
            self._failing = True
            LOGGER.warning(text)


def open_data_events() -> OpenLineageEvents:
    """Start the sender; the library reads where to from its variables."""
    event_v2.set_producer(_PRODUCER)
    namespace = os.environ.get(NAMESPACE_VARIABLE, "").strip() or "perago"
    return OpenLineageEvents(OpenLineageClient(), namespace)


def run_event(event: DataEvent, namespace: str) -> event_v2.RunEvent:
    """One event in the classes of the library, which hold it to the schema."""
    facets: dict[str, facet_v2.RunFacet] = {
        "parent": facet_v2.parent_run.ParentRunFacet(
            run=facet_v2.parent_run.Run(runId=_uuid(event.workflow_id)),
            job=facet_v2.parent_run.Job(namespace=namespace, name=WORKFLOW),
        ),
        "processing_engine": facet_v2.processing_engine_run.ProcessingEngineRunFacet(
            version=__version__, name="perago"
        ),
        "tags": facet_v2.tags_run.TagsRunFacet(
            tags=[
                facet_v2.tags_run.TagsRunFacetFields(key=key, value=value, source="PERAGO")
                for key, value in event.tags.items()
            ]
        ),
    }
    if event.error is not None:
        facets["errorMessage"] = facet_v2.error_message_run.ErrorMessageRunFacet(
            message=event.error, programmingLanguage="PYTHON"
        )
    return event_v2.RunEvent(
        eventType=event_v2.RunState[event.kind],
        eventTime=event.at.isoformat(),
        run=event_v2.Run(runId=_uuid(event.execution_id), facets=facets),
        job=event_v2.Job(namespace=namespace, name=event.task_name),
        producer=_PRODUCER,
        inputs=[event_v2.InputDataset(*_name(each), facets=_facets(each)) for each in event.inputs],
        outputs=[
            event_v2.OutputDataset(*_name(each), facets=_facets(each)) for each in event.outputs
        ],
    )


def _name(version: DataVersion) -> tuple[str, str]:
    """Namespace and name, without the commit.

    A catalogue draws its graph between names. With the commit in the name every publication would
    be another dataset, and no task would ever read what an earlier one has written.
    """
    return f"lakefs://{version.repository}", version.path


def _facets(version: DataVersion) -> dict[str, facet_v2.DatasetFacet]:
    """The commit as the dataset's version, and the whole address."""
    return {
        "version": facet_v2.dataset_version_dataset.DatasetVersionDatasetFacet(
            datasetVersion=version.commit
        ),
        "dataSource": facet_v2.datasource_dataset.DatasourceDatasetFacet(
            name="lakefs", uri=version.uri
        ),
    }


def _uuid(name: str) -> str:
    """The id itself where it is a UUID, as execution and workflow ids are; else one made of it."""
    with suppress(ValueError):
        return str(uuid.UUID(name))
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"perago:{name.encode(errors='replace').decode()}"))
