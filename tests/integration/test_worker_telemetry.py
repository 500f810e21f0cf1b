"""A worker beside a collector: one id everywhere, traces from input to commit, metrics by name."""

import signal
import socket
import time
from collections.abc import Iterator

import pytest
from tests.integration.otlp_collector import Collector, otlp_collector, texts
from tests.integration.worker_scene import WorkerScene, process_file

from perago.domain.attempt import WorkflowStatus
from perago.testing.contract.lakefs_under_test import MAIN

pytestmark = [pytest.mark.lakefs, pytest.mark.conductor]
TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = "b7ad6b7169203331"
BODY = """
print("wrote the report")
(workspace / "b.txt").write_text("b")
"""
METRICS = {
    "runtime.task_attempt_duration_seconds",
    "runtime.workspace_io_duration_seconds",
    "runtime.workspace_io_bytes",
    "runtime.busy_slots",
    "runtime.task_attempts_total",
    "runtime.queue_wait_seconds",
    "runtime.attempt_fence_verdicts_total",
    "runtime.publications_total",
    "runtime.cache_hits_total",
    "runtime.executor_events_total",
}


@pytest.fixture
def collector() -> Iterator[Collector]:
    with otlp_collector() as opened:
        yield opened


async def test_one_id_is_in_task_log_json_log_span_and_commit(
    scene: WorkerScene, collector: Collector
) -> None:
    module = await scene.declare(BODY, workspace=True)
    more = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": collector.endpoint,
        "OTEL_EXPORTER_OTLP_HEADERS": "X-Key=of-the-collector",
        "OTEL_SERVICE_NAME": "team-worker",
        "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment.name=test",
    }
    async with scene.polling_worker([module], root=None, **more) as worker:
        (executor,) = worker.executors()
        assert "of-the-collector" not in process_file(executor, "environ")
        workflow = await scene.start(module, traceparent=f"00-{TRACE}-{PARENT}-01")
        ended = await scene.ended(workflow)
        assert ended.status is WorkflowStatus.COMPLETED, worker.screen
        worker.signal(signal.SIGTERM)
        assert await worker.exit_code() == 0
        (end,) = worker.events("attempt ended")
        (row,) = ended.attempts
        (told,) = await scene.conductor.queue.read_log(row.snapshot.task_id)
        head = await scene.lakefs.branches.head(scene.repository, MAIN)
    (span,) = [each for each in collector.spans if each.name == f"process {module.name}"]
    facts = texts(span.attributes)
    execution = facts["perago.execution_id"]
    assert head.metadata["perago.execution_id"] == execution
    assert end["execution_id"] == execution
    assert f"execution={execution} " in told
    # The trace of the input goes on in the span and stands in the commit.
    assert (span.trace_id.hex(), span.parent_span_id.hex()) == (TRACE, PARENT)
    assert head.metadata["perago.traceparent"] == f"00-{TRACE}-{PARENT}-01"
    steps = {each.name for each in collector.spans if each.parent_span_id == span.span_id}
    assert {"materialised", "function-ended", "staged", "published", "completed"} <= steps
    assert facts["messaging.message.id"] == row.snapshot.task_id
    assert collector.resources[0]["service.name"] == "team-worker"
    assert collector.resources[0]["deployment.environment.name"] == "test"
    assert collector.resources[0]["service.instance.id"].startswith("workertask")
    assert set(collector.headers) == {"of-the-collector"}


async def test_metrics_reach_the_collector_of_the_standard_variables_by_name(
    scene: WorkerScene, collector: Collector
) -> None:
    module = await scene.declare(BODY, workspace=True)
    more = {
        "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": f"{collector.endpoint}/v1/metrics",
        "OTEL_EXPORTER_OTLP_METRICS_COMPRESSION": "gzip",
        "OTEL_EXPORTER_OTLP_METRICS_TIMEOUT": "2000",
        "OTEL_METRIC_EXPORT_INTERVAL": "500",
        "PERAGO_INSTANCE_ID": "pod-7",
    }
    async with scene.polling_worker([module], root=None, **more) as worker:
        assert (await scene.ended(await scene.start(module))).status is WorkflowStatus.COMPLETED
        worker.signal(signal.SIGTERM)
        assert await worker.exit_code() == 0
    assert set(collector.metrics) >= METRICS
    assert collector.metrics["runtime.workspace_io_bytes"].unit == "By"
    assert collector.metrics["runtime.queue_wait_seconds"].unit == "s"
    (point,) = collector.metrics["runtime.task_attempts_total"].sum.data_points
    assert texts(point.attributes)["status"] == "COMPLETED"
    assert texts(point.attributes)["task_name"] == module.name
    (busy,) = collector.metrics["runtime.busy_slots"].gauge.data_points
    assert texts(busy.attributes)["perago_instance_id"] == "pod-7"
    assert collector.spans == [], "only metrics have an endpoint"


async def test_a_collector_that_is_gone_holds_nothing_up(scene: WorkerScene) -> None:
    module = await scene.declare()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    more = {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{port}"}
    async with scene.polling_worker([module], root=None, **more) as worker:
        assert (await scene.ended(await scene.start(module))).status is WorkflowStatus.COMPLETED
        worker.signal(signal.SIGTERM)
        began = time.monotonic()
        assert await worker.exit_code() == 0
        assert time.monotonic() - began < 15
