"""`--otlp` and `--to`: send numbers of a job to other systems, while it runs and at its end."""

from __future__ import annotations

import json
import time
from importlib.util import find_spec
from typing import TYPE_CHECKING

from holter.cli.options import Refusal, Refusing
from holter.cli.output import warn
from holter.schema.companions import own_command

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holter.store.job import JobFolder

LAST_S = 5
"""How long the end of a job waits for an endpoint, at most."""


def check_endpoint(given: str) -> str:
    """Return the endpoint of `--otlp`, checked; empty for the one in the environment. Raises `Refusal`."""
    from holter.report.otlp import LACKING, address

    try:
        there = find_spec("opentelemetry.exporter.otlp.proto.http") and find_spec("opentelemetry.sdk.metrics")
    except ModuleNotFoundError:
        there = None
    if there is None:
        raise Refusal(f"--otlp: {LACKING}")
    with Refusing(ValueError, before="--otlp: "):
        address(given)
    return given


def check_tracker(given: str) -> str:
    """Return a value of `--to`, checked. Raises `Refusal`."""
    from holter.report.sinks import target

    with Refusing(ValueError, before="--to: "):
        target(given)
    return given


def trackers(folder: JobFolder, given: Sequence[str]) -> list[list[str]]:
    """Return the command of the process that sends to trackers, in a list; empty without `--to`."""
    return [own_command("holter.report.sinks", folder.url, *given)] if given else []


def send_rest(folder: JobFolder, given: Sequence[str], node: str) -> None:
    """Send what the trackers lack and the verdict. A failure is a warning, and an event of the job."""
    if not given:
        return
    from holter.report.sinks import target
    from holter.report.sinks.sending import Sending
    from holter.store.trial import Trial
    from holter.views.document.description import describe

    try:
        sending = Sending(folder, [target(one) for one in given])
        sending.send(int(folder.manifest().get("end") or time.time_ns()), rest=True)
        sending.judge(describe(Trial(folder)))
        where = sending.close()
    except Exception as error:  # the job has ended and its verdict is stored
        warn(f"internal error while sending to trackers: {type(error).__name__}: {error}")
        return
    for text in where:
        if text.partition(":")[0] not in sending.faults:
            warn(f"sent to {text}")
    for name, fault in sending.faults.items():
        warn(f"{name} did not take the verdict: {fault}")
        _note(folder, node, name, fault)


def companion(folder: JobFolder, given: str | None) -> list[list[str]]:
    """Return the command of the process that pushes while the job runs, in a list; empty without `--otlp`."""
    if given is None:
        return []
    return [own_command("holter.report.otlp", folder.url, *([given] if given else []))]


def push_rest(folder: JobFolder, given: str | None, node: str) -> None:
    """Push the metrics since the last successful push, and the issues that the rules found.

    A failure becomes an event of the job, unless the companion process has already recorded one.
    """
    if given is None:
        return
    from holter.report.otlp import Push, address, shown
    from holter.report.otlp.issues import IssuePush, logs_address
    from holter.store.layout import TOLD

    manifest = folder.manifest()
    start, end = (int(manifest.get(name) or 0) for name in ("start", "end"))
    try:
        kept = json.loads(folder.place.read(TOLD))
        sent_until, reported = int(kept["sent_until"]), bool(kept.get("told"))
        marks = [str(mark) for mark in kept.get("issues") or ()]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        sent_until, reported, marks = start, False, []
    url = address(given)
    push = Push(folder, url, sent_until=min(max(sent_until, start), end), timeout_s=LAST_S)
    try:
        done = push.send(end)
        if done:  # do not wait twice for an endpoint that does not answer
            IssuePush(folder, logs_address(url), sent=marks, timeout_s=LAST_S).send()
    except Exception as error:  # the job has ended and its verdict is stored
        warn(f"internal error while pushing metrics: {type(error).__name__}: {error}")
        return
    if not done:
        left = (end - push.sent_until) / 1e9
        fault = f"{shown(url)} does not take metrics" + (f" ({push.why})" if push.why else "")
        warn(f"{fault}: the metrics of the last {left:.0f} s were not sent")
        if not reported:
            _note(folder, node, "otlp", fault)


def _note(folder: JobFolder, node: str, name: str, fault: str) -> None:
    """Add a fault to the events of a job that has ended."""
    from holter.store.writer import Writer

    writer, now = Writer(folder, node), time.time_ns()
    detail = json.dumps({"where": f"agent: {name}", "error": fault, "count": 1})
    writer.append(
        "events", {"time": [now], "rank": [-1], "kind": ["fault"], "name": [name], "detail": [detail]}
    )
    writer.close()
