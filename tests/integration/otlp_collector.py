"""An OTLP collector of a test: takes spans and metrics over HTTP on loopback, keeps them."""

import gzip
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric
from opentelemetry.proto.trace.v1.trace_pb2 import Span


@dataclass
class Collector:
    """What arrived so far, and where to send more."""

    endpoint: str
    spans: list[Span] = field(default_factory=list[Span])
    metrics: dict[str, Metric] = field(default_factory=dict[str, Metric])
    resources: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    headers: list[str] = field(default_factory=list[str])

    def take_traces(self, body: bytes) -> None:
        """Keep the spans of one request."""
        for each in ExportTraceServiceRequest.FromString(body).resource_spans:
            self.resources.append(texts(each.resource.attributes))
            for scope in each.scope_spans:
                self.spans += scope.spans

    def take_metrics(self, body: bytes) -> None:
        """Keep the newest of each metric."""
        for each in ExportMetricsServiceRequest.FromString(body).resource_metrics:
            self.resources.append(texts(each.resource.attributes))
            for scope in each.scope_metrics:
                self.metrics |= {metric.name: metric for metric in scope.metrics}


def texts(attributes: Iterable[KeyValue]) -> dict[str, str]:
    """Attributes as text."""
    return {each.key: each.value.string_value or str(each.value.int_value) for each in attributes}


@contextmanager
def otlp_collector() -> Generator[Collector]:
    """Serve for the block."""

    class Answer(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            collector.headers.append(self.headers.get("X-Key", ""))
            if self.path == "/v1/traces":
                collector.take_traces(body)
            elif self.path == "/v1/metrics":
                collector.take_metrics(body)
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its signature
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    collector = Collector(f"http://127.0.0.1:{server.server_port}")
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield collector
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
