"""Pushes issues as log records with the client of OpenTelemetry, when found and when resolved."""

from __future__ import annotations

import hashlib
import logging
import os
from typing import TYPE_CHECKING

from holter.report.otlp import source, take_messages

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from opentelemetry.sdk._logs import ReadableLogRecord

    from holter.store.documents import Document
    from holter.store.job import JobFolder

_PATH = "/v1/logs"
_PLACES = ("code", "node", "rank", "device", "tensor")
"""Fields that identify an issue within its rule."""
_TOLD = ("step_start", "step_end", "count", "advice")
_MOST_LETTERS = 4000


def logs_address(metrics: str) -> str:
    """Return where issues go, when metrics go to this address."""
    own = os.environ.get("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT")
    return own or metrics.removesuffix("/v1/metrics") + _PATH


def fresh(rules: Iterable[Document], sent: set[str]) -> Iterator[tuple[str, str, Document]]:
    """Yield new and changed issues: their key, their rule and the issue."""
    for rule in rules:
        for issue in rule.get("issues") or ():
            about = [rule.get("name"), *(issue.get(name) for name in _PLACES), issue.get("status")]
            mark = hashlib.sha256(repr(about).encode()).hexdigest()[:16]
            if mark not in sent:
                yield mark, str(rule.get("name")), issue


class IssuePush:
    """Sends a job's issues to one address; `sent` holds the keys of those that arrived."""

    def __init__(
        self, folder: JobFolder, url: str, *, sent: Iterable[str] = (), timeout_s: int | None = None
    ) -> None:
        from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter

        self.sent = set(sent)
        self._folder = folder
        self._exporter = OTLPLogExporter(endpoint=url, timeout=timeout_s)
        take_messages(logging.NullHandler())

    def send(self) -> bool:
        """Send new issues; return whether the endpoint accepted all of them."""
        from opentelemetry.sdk._logs.export import LogRecordExportResult

        found = list(fresh(self._folder.evaluations().get("rules") or (), self.sent))
        if not found:
            return True
        records = [self._record(rule, issue) for _, rule, issue in found]
        if self._exporter.export(records) is not LogRecordExportResult.SUCCESS:
            return False
        self.sent.update(mark for mark, *_ in found)
        return True

    def _record(self, rule: str, issue: Document) -> ReadableLogRecord:
        from opentelemetry._logs import LogRecord, SeverityNumber
        from opentelemetry.sdk._logs import ReadableLogRecord

        levels = {"critical": SeverityNumber.ERROR, "warning": SeverityNumber.WARN}
        severity = str(issue.get("severity"))
        over = issue.get("status") == "resolved"
        given = {key: issue.get(key) for key in (*_PLACES, *_TOLD)}
        when = issue.get("resolved") if over else issue.get("time_start") or issue.get("last_found")
        record = LogRecord(
            timestamp=int(when or 0),
            observed_timestamp=int(issue.get("last_found") or when or 0),
            severity_text=severity,
            severity_number=levels.get(severity, SeverityNumber.INFO),
            body=str(issue.get("summary"))[:_MOST_LETTERS],
            attributes={"job_name": self._folder.name, "rule": rule, "status": "resolved" if over else "open"}
            | {key: value for key, value in given.items() if value not in (None, "")},
        )
        return ReadableLogRecord(record, *source(self._folder.name))
