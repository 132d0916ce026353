"""Sends one job to trackers: numbers of each interval while it runs, the verdict at its end."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from holter.report.sinks import SentJob, SinkError, StepNumbers, TrackerTarget, TrackerVerdict, sinks
from holter.store.layout import SENT
from holter.store.trial import Trial
from holter.views.telemetry import Telemetry
from holter.views.wording import advice_text, percent, words

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holter.report.sinks import TrackerRun
    from holter.store.job import JobFolder
    from holter.views.document.types import Description
    from holter.views.telemetry import Point as Metric

EVERY_NS = 10_000_000_000
"""Length of the intervals; one point is sent for each."""
MOST_POINTS = 2000
"""A longer job is sent in longer intervals at its end."""
_READINGS = {
    "holter_cpu_util_percent": "machine/cpu_pct",
    "holter_mem_used_percent": "machine/memory_pct",
    "holter_gpu_util_percent": "machine/gpu_pct",
    "holter_gpu_mem_used_percent": "machine/gpu_memory_pct",
}
"""Metric of the telemetry → number of a tracker; the mean over nodes and devices."""


@dataclass(slots=True)
class _Open:
    target: TrackerTarget
    run: TrackerRun


class Sending:
    """The runs of one job; a tracker that fails is left out, and `faults` says why."""

    def __init__(self, folder: JobFolder, targets: Sequence[TrackerTarget]) -> None:
        self.faults: dict[str, str] = {}
        self._folder = folder
        self._targets = [_resumed(one, self._kept()) for one in targets]
        self._open: dict[str, _Open] = {}
        manifest = folder.manifest()
        self._began = int(manifest.get("start") or manifest.get("created") or 0)
        sent = self._kept().get("sent_until")
        self._sent_until = {
            one.name: int(sent.get(one.name) or self._began) if isinstance(sent, dict) else self._began
            for one in targets
        }
        """The time, ns, until which numbers were sent to each tracker."""
        self._read_until = min(self._sent_until.values(), default=self._began)
        self._telemetry = Telemetry(Trial(folder, threads=1))

    def send(self, until: int, *, rest: bool = False) -> None:
        """Send the numbers of whole intervals up to a time; with `rest` of the last, shorter one too."""
        points = []
        every = max(EVERY_NS, -(-(until - self._read_until) // MOST_POINTS))
        while self._read_until + (0 if rest else every) < until:
            at = min(self._read_until + every, until)
            point = _point(self._telemetry.points(self._read_until, at), at)
            self._read_until = at
            if point is not None:
                points.append(point)
        for target in self._targets:
            new = [one for one in points if one.time_ns > self._sent_until[target.name]]
            if (
                new
                and (run := self._run(target)) is not None
                and self._attempt(target, partial(run.log, new))
            ):
                self._sent_until[target.name] = new[-1].time_ns

    def judge(self, told: Description) -> None:
        """Send the verdict to all trackers."""
        found = judgement(told, self._folder.url)
        for target in self._targets:
            if (run := self._run(target)) is not None:
                self._attempt(target, partial(run.judge, found))

    def close(self) -> list[str]:
        """Close all runs and keep how to open them again; return what people call them."""
        where = []
        resume: dict[str, dict[str, str]] = {}
        for name, one in self._open.items():
            self._attempt(one.target, one.run.close)
            where.append(f"{name}: {one.run.where}")
            resume[name] = dict(one.run.resume)
        before = self._kept()
        kept: dict[str, object] = {"schema": 1}
        for key, found in (("sent_until", self._sent_until), ("runs", resume)):
            known = before.get(key)
            kept[key] = {**(known if isinstance(known, dict) else {}), **found}
        self._folder.place.write(SENT, json.dumps(kept).encode())
        return where

    def _run(self, target: TrackerTarget) -> TrackerRun | None:
        if target.name in self.faults:
            return None
        if target.name not in self._open:
            job = SentJob(self._folder.name, self._folder.url, self._began, os.getcwd(), dict(os.environ))
            try:
                run = sinks()[target.name].open_run(target, job)
            except SinkError as error:
                self.faults[target.name] = str(error)
                return None
            except Exception as error:  # a tracker's library may raise anything
                self.faults[target.name] = f"{type(error).__name__}: {error}"
                return None
            self._open[target.name] = _Open(target, run)
        return self._open[target.name].run

    def _attempt(self, target: TrackerTarget, step: Callable[[], None]) -> bool:
        try:
            step()
        except Exception as error:
            text = str(error) if isinstance(error, SinkError) else f"{type(error).__name__}: {error}"
            self.faults.setdefault(target.name, text.partition("\n")[0][:300])
            return False
        return True

    def _kept(self) -> dict[str, object]:
        try:
            found = json.loads(self._folder.place.read(SENT))
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}


def judgement(told: Description, url: str) -> TrackerVerdict:
    """Return what trackers are told about a described job."""
    job, verdict, steps = told["job"], told["verdict"], told["steps"]
    numbers: dict[str, float] = {}
    if steps:
        numbers["steps"] = float(steps["count"])
        for key in ("mean_ms", "p50_ms", "p95_ms", "per_second"):
            if (value := steps[key]) is not None:
                numbers[key if key == "per_second" else f"step_{key}"] = float(value)
    for part, share in (told["breakdown"] or {}).items():
        numbers[f"parts/{part}_pct"] = float(share)
    if verdict["share_pct"] is not None:
        numbers["verdict_share_pct"] = float(verdict["share_pct"])
    issues = [issue for rule in told["rules"] for issue in rule["issues"]]
    numbers["issues"] = float(len(issues))
    parts = ", ".join(f"{words(part)} {percent(share)}" for part, share in (told["breakdown"] or {}).items())
    lines = [f"**{job['headline']}**"] if job["headline"] else []
    lines.append(verdict["sentence"])
    lines += [f"Parts of a step: {parts}."] if parts else []
    lines += [f"* {advice_text(one)}" for one in verdict["advice"][:3]]
    link = f"holter describe {url}"
    lines.append(f"`{link}`")
    sentence = f"{job['headline']} {verdict['sentence']}" if job["headline"] else verdict["sentence"]
    return TrackerVerdict(sentence, verdict["suspect"], "\n\n".join(lines), numbers, link)


def _resumed(target: TrackerTarget, kept: dict[str, object]) -> TrackerTarget:
    """Return a target that opens the run that an earlier process of this job opened."""
    runs = kept.get("runs")
    found = runs.get(target.name) if isinstance(runs, dict) else None
    if not isinstance(found, dict):
        return target
    again = {str(key): str(value) for key, value in found.items()}
    return replace(target, options={**again, **target.options})


def _point(metrics: Sequence[Metric], at: int) -> StepNumbers | None:
    """Return the numbers of an interval; None before the first step."""
    step, values = 0, {}
    readings: dict[str, list[float]] = {}
    for one in metrics:
        if one.name == "holter_steps_total":
            step = int(one.value)
        elif one.name == "holter_step_seconds" and one.labels["quantile"] in ("0.5", "0.95"):
            values[f"step_p{float(one.labels['quantile']) * 100:.0f}_ms"] = 1e3 * one.value
        elif one.name == "holter_step_share_ratio":
            values[f"parts/{one.labels['part']}_pct"] = 100 * one.value
        elif one.name in _READINGS:
            readings.setdefault(_READINGS[one.name], []).append(one.value)
    values |= {name: float(np.mean(found)) for name, found in readings.items()}
    return StepNumbers(step, at, values) if step and values else None
