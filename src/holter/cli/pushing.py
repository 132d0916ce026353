"""`--otlp`: metrics of the job to a monitoring system, while it runs and at its end."""

from __future__ import annotations

import json
import time
from importlib.util import find_spec
from typing import TYPE_CHECKING

from holter.cli import options
from holter.cli.options import Refusal
from holter.schema.companions import own_command

if TYPE_CHECKING:
    from argparse import ArgumentParser

    from holter.store.job import JobFolder

LAST_S = 5
"""What the end of a job waits for an endpoint, at most."""


def add_option(parser: ArgumentParser) -> None:
    """Add `--otlp`."""
    parser.add_argument(
        "--otlp",
        metavar="ENDPOINT",
        nargs="?",
        const="",
        default=None,
        help="push metrics to this OpenTelemetry endpoint, as http://localhost:4318; without one, where "
        "OTEL_EXPORTER_OTLP_ENDPOINT says; secrets in OTEL_EXPORTER_OTLP_HEADERS only",
    )


def endpoint(given: str | None) -> str | None:
    """Check `--otlp`; None when nothing is pushed. Raises `Refusal`."""
    if given is None:
        return None
    from holter.report.otlp import LACKING, address

    try:
        there = find_spec("opentelemetry.exporter.otlp.proto.http") and find_spec("opentelemetry.sdk.metrics")
    except ModuleNotFoundError:
        there = None
    if there is None:
        raise Refusal(f"--otlp: {LACKING}")
    try:
        address(given)
    except ValueError as error:
        raise Refusal(f"--otlp: {error}") from None
    return given


def companion(folder: JobFolder, given: str | None) -> list[list[str]]:
    """Return the command that pushes while the job runs, in a list; an empty one when nothing is pushed."""
    if given is None:
        return []
    return [own_command("holter.report.otlp", folder.url, *([given] if given else []))]


def push_rest(folder: JobFolder, given: str | None, node: str) -> None:
    """Push what came after the last push that arrived: the end of the job, and what the rules said of it.

    Where that fails and nobody has told the job yet, as in one too short for a push, it is told of it now.
    """
    if given is None:
        return
    from holter.report.otlp import Push, address, shown
    from holter.report.otlp.issues import IssuePush, beside
    from holter.store.layout import TOLD

    manifest = folder.manifest()
    start, end = (int(manifest.get(name) or 0) for name in ("start", "end"))
    try:
        kept = json.loads(folder.place.read(TOLD))
        sent_until, told = int(kept["sent_until"]), bool(kept.get("told"))
        marks = [str(mark) for mark in kept.get("issues") or ()]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        sent_until, told, marks = start, False, []
    url = address(given)
    push = Push(folder, url, sent_until=min(max(sent_until, start), end), timeout_s=LAST_S)
    try:
        done = push.send(end)
        if done:  # an endpoint that does not answer is not waited for twice
            IssuePush(folder, beside(url), told=marks, timeout_s=LAST_S).send()
    except Exception as error:  # the job is over and its verdict stands
        options.warn(f"own fault while pushing metrics: {type(error).__name__}: {error}")
        return
    if not done:
        left = (end - push.sent_until) / 1e9
        fault = f"{shown(url)} does not take metrics" + (f" ({push.why})" if push.why else "")
        options.warn(f"{fault}: of the last {left:.0f} s none were sent")
        if not told:
            _note(folder, node, fault)


def _note(folder: JobFolder, node: str, fault: str) -> None:
    """Add a fault to the events of a job that is over; a store that is away now goes without."""
    from holter.store.writer import Writer

    writer, now = Writer(folder, node), time.time_ns()
    detail = json.dumps({"where": "agent: otlp", "error": fault, "count": 1})
    writer.append(
        "events", {"time": [now], "rank": [-1], "kind": ["fault"], "name": ["otlp"], "detail": [detail]}
    )
    writer.close()
