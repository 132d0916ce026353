"""A value of one step stays to be seen, however many steps a chart has room for."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from holter.drawing.figure import MOST, thin
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
