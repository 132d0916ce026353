"""What monitoring is told: true to the tables, the same however a job is cut, under names that are valid."""

from __future__ import annotations

import re

import numpy as np
import pytest
from tests.cli.conftest import told

from holter.schema.metrics import METRICS
from holter.store.trial import Trial
from holter.views.telemetry import OUTGOING, Telemetry, complete_until

SECOND = 10**9


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder, story = told(
        "before", str(tmp_path_factory.mktemp("told") / "store"), ranks=2, cores=2, steps=120, samples=400
    )
    issues = [
        {"severity": "warning", "time_start": story.manifest["start"] + at * SECOND, "summary": "x"}
        for at in (1, 20, 10_000)
    ]
    folder.write_evaluations({"rules": [{"name": "R", "status": "IssuesFound", "issues": issues}]})
    return Trial(folder), story


def value(points, name, **labels):
    (found,) = [p.value for p in points if p.name == name and labels.items() <= p.labels.items()]
    return found


def test_names_and_units_are_such_as_prometheus_wants():
    endings = {
        "By": "bytes",
        "%": "percent",
        "s": "seconds",
        "1": "ratio",
        "W": "watts",
        "ms": "milliseconds",
    }
    for one in OUTGOING.values():
        assert re.fullmatch(r"holter(_[a-z0-9]+)+", one.name), one.name
        assert one.help.endswith(".")
        assert one.name.endswith(endings.get(one.unit, "")), one
        assert one.name.endswith("_total") == (one.kind == "counter")
    assert len(OUTGOING) == 5 + sum(not name.startswith("cpu.core.") for name in METRICS)


def test_a_whole_job_in_one_stretch(made):
    trial, story = made
    start, end = story.manifest["start"], story.manifest["end"]
    points = Telemetry(trial).points(start, end + SECOND)
    assert value(points, "holter_steps_total") == 120
    assert value(points, "holter_step_seconds", quantile="0.5") == pytest.approx(1.0, abs=0.05)
    shares = {p.labels["part"]: p.value for p in points if p.name == "holter_step_share_ratio"}
    assert sum(shares.values()) == pytest.approx(1)
    assert shares["data_loading"] == pytest.approx(0.6, abs=0.01)
    chosen = (story.samples["metric"] == "gpu.util") & (story.samples["device"] == "gpu0")
    mean = story.samples["value"][chosen].mean()
    assert value(points, "holter_gpu_util_percent", device="gpu0") == pytest.approx(mean)
    assert value(points, "holter_issues", severity="warning") == 2, "the third began after the end"
    assert value(points, "holter_issues", severity="critical") == 0
    assert value(points, "holter_rule_issues", rule="R", severity="warning") == 2
    assert not [p for p in points if "core" in p.name]


@pytest.mark.parametrize("every", [7, 30])
def test_cut_in_stretches_it_counts_the_same(made, every):
    trial, story = made
    start, end = story.manifest["start"], story.manifest["end"]
    telemetry = Telemetry(trial)
    counts, seconds = [], []
    for at in range(start, end + every * SECOND, every * SECOND):
        points = telemetry.points(at, at + every * SECOND)
        counts += [p.value for p in points if p.name == "holter_steps_total"]
        seconds += [p.value for p in points if p.labels.get("quantile") == "0.5"]
    assert counts == sorted(counts)
    assert counts[-1] == 120
    assert np.allclose(seconds, 1.0, atol=0.1)
    late = Telemetry(trial).points(end, end + SECOND)
    assert value(late, "holter_steps_total") == 120, "who comes late counts what was before"


def test_complete_until_what_the_slowest_node_has_stored(made):
    trial, story = made
    newest = int(story.samples["time"].max())
    until = complete_until(trial, newest + SECOND)
    assert newest - 75 * SECOND < until < newest
    assert complete_until(trial, newest + 3600 * SECOND) is None
