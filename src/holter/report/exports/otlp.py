"""Exports the metrics that `holter run --otlp` pushes as OTLP JSON, one minute per line."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from holter.report.exports import opened
from holter.report.otlp import LACKING, stretches

if TYPE_CHECKING:
    from pathlib import Path

    from holter.report.exports import ExportSelection
    from holter.store.trial import Trial

ABOUT = "metrics as OTLP JSON, as the collector's file receiver reads them"
SUFFIX = ".otlp.jsonl"
SHOW = "head -n 1 {output} | jq ."
NEEDS = "samples, spans or steps"
EVERY_NS = 60_000_000_000


def write(trial: Trial, chosen: ExportSelection, output: Path) -> int:
    """Write one request of OpenTelemetry's protocol a line and minute; returns how many values it wrote.

    Raises:
        OSError: The file cannot be written, OpenTelemetry's client is not there, or ranks were chosen.
    """
    try:
        from google.protobuf.json_format import MessageToDict
        from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics
        from opentelemetry.sdk.metrics.export import MetricsData
    except ImportError:
        raise OSError(LACKING) from None
    if chosen.ranks is not None:
        raise OSError("its metrics are of all ranks together, so --rank chooses nothing")
    newest = max(
        (last for name in ("samples", "spans", "steps") for _, last, _ in trial.groups(name)), default=0
    )
    if not newest:
        return 0
    manifest = trial.manifest
    start = chosen.start_ns or int(manifest.get("start") or 0)
    end = chosen.end_ns or manifest.get("end") or newest
    written = 0
    with opened(output) as file:
        for record in stretches(trial, start, end, every=EVERY_NS):
            written += sum(
                len(metric.data.data_points) for scope in record.scope_metrics for metric in scope.metrics
            )
            message = encode_metrics(MetricsData([record]))
            file.write(msgspec.json.encode(MessageToDict(message, use_integers_for_enums=True)) + b"\n")
    return written
