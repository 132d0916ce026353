"""Pushes the metrics of a job from the store over OTLP/HTTP, with the client of OpenTelemetry.

The store is the queue: what an endpoint did not take is read again and sent when it answers, as far back as
`BACK_NS`. Headers, certificates and time limits are what OpenTelemetry's variables say
(`OTEL_EXPORTER_OTLP_HEADERS`, `…_CERTIFICATE`, `…_TIMEOUT`); they are never stored, logged or passed on.
"""

from __future__ import annotations

import logging
import os
import re
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from holter.views.telemetry import Telemetry, outgoing

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from opentelemetry.sdk.metrics.export import Metric, ResourceMetrics
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope

    from holter.store.job import JobFolder
    from holter.store.trial import Trial
    from holter.views.telemetry import Point

EVERY_NS = 10_000_000_000
"""Length of the intervals; one value is sent for each."""
BACK_NS = 3_600_000_000_000
"""Older values are dropped when the endpoint answers again."""
AT_ONCE = 30
"""Intervals in one request."""
DEFAULT = "http://localhost:4318"
"""The default address of OpenTelemetry's collector."""
LACKING = "pushing metrics needs OpenTelemetry's client; install it: pip install 'holter[otlp]'"
_PATH = "/v1/metrics"


def address(given: str) -> str:
    """Return where metrics go: below an endpoint, or where OpenTelemetry's variables say.

    Raises:
        ValueError: The endpoint is not an HTTP address, or it holds credentials.
    """
    if not given:
        own = os.environ.get("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT")
        if own:
            return own
        given = os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT") or DEFAULT
        return given.rstrip("/") + _PATH
    parts = urlsplit(given)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"endpoint {given!r} is no address; valid: as in {DEFAULT}")
    if parts.username or parts.password or parts.query:
        where = f"{parts.scheme}://{parts.hostname}"
        raise ValueError(f"endpoint {where}: credentials belong into OTEL_EXPORTER_OTLP_HEADERS")
    return given.rstrip("/").removesuffix(_PATH) + _PATH


def shown(url: str) -> str:
    """Return an address without its parts that may be secret."""
    parts = urlsplit(url)
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{parts.hostname}{port}{parts.path}"


def stretches(trial: Trial, start: int, end: int, *, every: int = EVERY_NS) -> Iterator[ResourceMetrics]:
    """Yield the metrics of a time range as OpenTelemetry's records, one per interval."""
    telemetry, began = Telemetry(trial), int(trial.manifest.get("start") or start)
    for at in range(start, end, every):
        until = min(at + every, end)
        points = telemetry.points(at, until)
        # The next stretch begins where this one ends, so its last moment is just before.
        yield record(trial.folder.name, points, began=began, at=until - 1)


def record(job: str, points: Sequence[Point], *, began: int, at: int) -> ResourceMetrics:
    """Return points of one moment as OpenTelemetry's record; counters count from `began`, ns like `at`.

    Each point has the job's name as `job_name` too, as for Prometheus.
    """
    from opentelemetry.sdk.metrics.export import ResourceMetrics, ScopeMetrics

    resource, scope = source(job)
    by_name = groupby(sorted(points, key=attrgetter("name")), attrgetter("name"))
    metrics = [_metric(name, list(same), job, began, at) for name, same in by_name]
    return ResourceMetrics(resource, [ScopeMetrics(scope, metrics, "")], "")


def source(job: str) -> tuple[Resource, InstrumentationScope]:
    """Return what OpenTelemetry calls the resource and the scope of a job's records."""
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope

    from holter import __version__

    name = os.environ.get("OTEL_SERVICE_NAME") or "holter"
    resource = Resource.create({"service.name": name, "service.instance.id": job})
    return resource, InstrumentationScope("holter", __version__)


def take_messages(handler: logging.Handler) -> None:
    """Pass the client's log messages to a handler only, because they may hold the whole address."""
    log = logging.getLogger("opentelemetry")
    log.propagate = False
    log.addHandler(handler)


def _metric(name: str, points: list[Point], job: str, began: int, at: int) -> Metric:
    from opentelemetry.sdk.metrics.export import AggregationTemporality, Gauge, Metric, NumberDataPoint, Sum

    of = outgoing(name)
    counts = of.kind == "counter"
    values = [
        NumberDataPoint({"job_name": job, **point.labels}, began if counts else at, at, point.value)
        for point in points
    ]
    data = Sum(values, AggregationTemporality.CUMULATIVE, is_monotonic=True) if counts else Gauge(values)
    return Metric(of.name, of.help, of.unit, data)


class Push:
    """Sends the metrics of a job to one address, in order; all metrics before `sent_until` have arrived."""

    def __init__(
        self,
        folder: JobFolder,
        url: str,
        *,
        sent_until: int,
        threads: int | None = None,
        timeout_s: int | None = None,
    ) -> None:
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter

        from holter.store.trial import Trial

        self.sent_until = sent_until
        self.why = ""
        """The client's last error; empty when all metrics were sent."""
        self._trial = Trial(folder, threads=threads)
        self._exporter = OTLPMetricExporter(endpoint=url, timeout=timeout_s)
        take_messages(_Listener(self))  # the client reports errors by logging only

    def send(self, until: int) -> bool:
        """Send the metrics up to a time; return whether the endpoint accepted all of them."""
        from opentelemetry.sdk.metrics.export import MetricExportResult, MetricsData

        self.sent_until = max(self.sent_until, until - BACK_NS)
        while self.sent_until < until:
            end = min(self.sent_until + AT_ONCE * EVERY_NS, until)
            data = MetricsData(list(stretches(self._trial, self.sent_until, end)))
            if self._exporter.export(data) is not MetricExportResult.SUCCESS:
                return False
            self.sent_until, self.why = end, ""
        return True


class _Listener(logging.Handler):
    """Keeps the HTTP status, or the kind of error, of the client's log messages."""

    def __init__(self, push: Push) -> None:
        super().__init__(logging.WARNING)
        self._push = push

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        kinds = ("refused", "timed out", "Name or service", "Temporary failure", "CERTIFICATE", "unreachable")
        status = re.search(r"\b[45]\d\d\b", text)
        found = next((kind for kind in kinds if kind.lower() in text.lower()), "")
        known = {"refused": "connection refused", "CERTIFICATE": "its certificate is not trusted"}
        if status or found:
            self._push.why = f"HTTP {status[0]}" if status else known.get(found, found.lower())
