"""A receiver of OTLP over HTTP on the loopback: decodes with the official protobuf, and can fail."""

from __future__ import annotations

import contextlib
import gzip
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest


@dataclass
class Collector:
    """What was received, and how to answer."""

    port: int = 0
    answers: list[int] = field(default_factory=list)
    """Statuses of the next answers, in place of taking the metrics."""
    requests: list[ExportMetricsServiceRequest] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    arrived: list[int] = field(default_factory=list)
    """When each request came, ns since the epoch."""

    logs: list[ExportLogsServiceRequest] = field(default_factory=list)
    logs_answer: int = 200

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def issues(self) -> list[dict[str, Any]]:
        """Return every log record: body, severity, time, attributes."""
        return [
            {
                "body": record.body.string_value,
                "severity": record.severity_number,
                "time": record.time_unix_nano,
                **{one.key: getattr(one.value, one.value.WhichOneof("value")) for one in record.attributes},
            }
            for request in self.logs
            for of_resource in request.resource_logs
            for of_scope in of_resource.scope_logs
            for record in of_scope.log_records
        ]

    def points(self) -> list[dict[str, Any]]:
        """Return every point: name, time, value, unit, kind, labels, resource."""
        return [point for request in self.requests for point in points(request)]


def points(request: ExportMetricsServiceRequest) -> Iterator[dict[str, Any]]:
    for of_resource in request.resource_metrics:
        resource = {one.key: one.value.string_value for one in of_resource.resource.attributes}
        for of_scope in of_resource.scope_metrics:
            for metric in of_scope.metrics:
                kind = metric.WhichOneof("data")
                for point in getattr(metric, kind).data_points:
                    yield {
                        "name": metric.name,
                        "unit": metric.unit,
                        "kind": kind,
                        "time": point.time_unix_nano,
                        "start": point.start_time_unix_nano,
                        "value": getattr(point, point.WhichOneof("value")),
                        "labels": {one.key: one.value.string_value for one in point.attributes},
                        "resource": resource,
                    }


class _Answers(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        collector: Collector = self.server.collector  # type: ignore[attr-defined]
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        if self.path == "/v1/logs":
            collector.logs.append(ExportLogsServiceRequest.FromString(body))
            return self._say(collector.logs_answer)
        status = collector.answers.pop(0) if collector.answers else 200
        if status == 200:
            assert self.path == "/v1/metrics", self.path
            assert self.headers["Content-Type"] == "application/x-protobuf"
            collector.requests.append(ExportMetricsServiceRequest.FromString(body))
            collector.headers.append(dict(self.headers))
            collector.arrived.append(time.time_ns())
        self._say(status)
        return None

    def _say(self, status: int) -> None:
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@contextlib.contextmanager
def collecting(port: int = 0) -> Iterator[Collector]:
    """Run a collector until the block ends."""
    server = ThreadingHTTPServer(("127.0.0.1", port), _Answers)
    server.collector = Collector(server.server_address[1])  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.collector  # type: ignore[attr-defined]
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)
