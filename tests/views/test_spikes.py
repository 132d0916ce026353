"""A value of one step stays to be seen, however many steps a chart has room for."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from holter.drawing.figure import MOST, figure, thin
from holter.drawing.svg import svg
from holter.schema.phases import BREAKDOWN
from holter.store.job import create
from holter.store.trial import Trial
from holter.store.writer import Writer
from holter.views.figures import draw
from holter.views.reading import Reading

START = 1_700_000_000 * 10**9
STEPS = 2000
SPIKE, BROKEN = 1234, (400, 1700)


@pytest.fixture(scope="module")
def reading(tmp_path_factory):
    folder = create(
        str(tmp_path_factory.mktemp("spikes")), "spikes", command=[], interval_ms=1000, rules=[], now_ns=START
    )
    step = np.arange(STEPS)
    values = np.ones(STEPS)
    values[SPIKE] = 50.0
    values[list(BROKEN)] = math.nan, math.inf
    took = np.where(step == SPIKE, 5 * 10**8, 10**7)
    at = {"time": START + step * 10**7, "rank": [0] * STEPS, "step": step, "mode": ["train"] * STEPS}
    writer = Writer(folder, "n0")
    writer.append("scalars", {**at, "name": ["loss"] * STEPS, "value": values})
    parts = dict.fromkeys((*BREAKDOWN, "compile"), np.zeros(STEPS, np.int64))
    writer.append("steps", {**at, "duration": took, **parts, "data_loading": took, "node": ["n0"] * STEPS})
    writer.close()
    return Reading(Trial(folder), width=100)


def test_a_spike_of_one_step_is_in_the_band_and_what_is_not_finite_is_marked(reading):
    loss = draw("losses", reading)
    (line,) = loss.series
    assert max(value for value in line.values if value) < 4
    assert max(line.high) == 50
    assert min(line.low) == 1
    assert loss.broken == [(step, step + 1) for step in BROKEN]
    assert loss.flag == "NaN in step 400"
    drawn = svg(loss)
    assert drawn.count('class="broken"') == 2
    assert drawn.count("NaN in step 400") == 1
    assert 'class="band' in drawn
    assert 'class="broken"' not in svg(replace(loss, broken=None))


@pytest.mark.parametrize("name", ["step_times", "loader_waits"])
def test_the_longest_step_is_in_the_band(reading, name):
    (line,) = draw(name, reading).series
    assert max(line.high) == 500
    assert min(line.low) == 10
    assert max(line.values) == 10


def test_a_thinned_line_keeps_its_spikes(reading):
    fine = draw("losses", replace(reading, width=STEPS))
    (line,) = fine.series
    assert line.high is None, "each point is one step"
    thinned = thin(fine)
    assert len(thinned.x) <= MOST
    assert max(value for value in thinned.series[0].high if value is not None) == 50
    assert thinned.broken == fine.broken


def scalars(tmp_path, values):
    folder = create(str(tmp_path), "scalars", command=[], interval_ms=1000, rules=[], now_ns=START)
    count = len(values)
    writer = Writer(folder, "n0")
    at = {"time": START + np.arange(count) * 10**7, "rank": [0] * count, "step": np.arange(count)}
    writer.append("scalars", {**at, "mode": ["train"] * count, "name": ["loss"] * count, "value": values})
    writer.close()
    return draw("losses", Reading(Trial(folder), width=100))


def test_a_number_that_never_changes_is_no_chart(tmp_path):
    found = scalars(tmp_path, np.full(50, 0.001))
    assert (found.kind, found.series[0].values) == ("constants", [0.001])
    assert "0.001, constant" in figure(found)
    assert "grid" not in figure(found)


@pytest.mark.parametrize(
    ("values", "log", "linear"),
    [
        (10.0 ** np.arange(20), True, None),
        (np.linspace(2.5, 0.1, 50), False, None),
        (np.append(np.tile([-1.0, 1.0], 20), -1e9), False, 1.0),
    ],
)
def test_an_axis_is_logarithmic_where_the_values_need_it(tmp_path, values, log, linear):
    found = scalars(tmp_path, values)
    assert (found.y_axis.log, found.y_axis.linear) == (log, linear)
    drawn = svg(found)
    assert (">1e15<" in drawn or ">1e16<" in drawn) is log
    assert ("-1e9<" in drawn) is (linear is not None)


def test_values_that_stay_not_finite_are_hatched_to_the_end(tmp_path):
    found = scalars(tmp_path, np.append(np.linspace(2, 1, 30), np.full(20, math.nan)))
    assert found.broken == [(30, 50)]
    assert found.flag == "NaN from step 30"
    assert found.note.endswith("20 values not finite: the hatched steps.")
