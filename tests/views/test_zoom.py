"""Charts of a window of time: drawn from data of that resolution, not the whole seen larger."""

from __future__ import annotations

import numpy as np
import pytest
from tests.cli.conftest import told

from holter.schema.table import Table
from holter.store.trial import Trial
from holter.views.document.progress import progress
from holter.views.figure import Figure
from holter.views.figures import draw, names
from holter.views.reading import Reading
from holter.views.step_clock import step_clock
from holter.views.wording import natural


@pytest.fixture(scope="module")
def reading(tmp_path_factory):
    store = str(tmp_path_factory.mktemp("zoom") / "store")
    folder, _ = told("before", store, ranks=2, cores=12, steps=200, samples=800)
    return Reading(Trial(folder), width=50)


@pytest.fixture(scope="module")
def window(reading):
    """Some steps in the middle of the training loop, seconds since the start."""
    begin = (reading.steps["time"] - reading.start) / 1e9
    return float(begin[len(begin) // 3]), float(begin[len(begin) // 2])


@pytest.mark.parametrize("name", names())
def test_every_chart_is_drawn_of_a_window(name, reading, window):
    figure = draw(name, reading.at(window, 80))
    if isinstance(figure, str) or figure.x_axis.label not in ("time since the start", "step"):
        return
    if figure.x_axis.label == "step":
        seen = reading.at(window, 80).drawn_steps["step"]
        assert seen.min() - 1 <= min(figure.x), "what belongs to a step may be told just after it"
        assert max(figure.x) <= seen.max() + 1
    else:
        assert window[0] <= min(figure.x)
        assert max(figure.x) <= window[1]


@pytest.mark.parametrize("name", names())
def test_of_a_window_before_the_job_every_chart_has_nothing(name, reading):
    figure = draw(name, reading.at((-100.0, -50.0), 80))
    if isinstance(figure, Figure) and figure.x_axis.label in ("time since the start", "step"):
        assert all(value in (None, 0) for series in figure.series for value in series.values)


def test_a_zoom_shows_more_not_the_same_larger(reading, window):
    seconds = window[1] - window[0]
    near = draw("utilization", reading.at(window, 80)).series[0]
    samples = reading.trial.sql(
        f"SELECT time, value FROM samples WHERE metric = 'cpu.util' AND time >= {reading.since}"
    )
    time = (samples["time"] - reading.start) / 1e9
    inside = samples["value"][(time >= window[0]) & (time < window[1])]
    drawn = {round(value, 9) for value in near.values if value is not None}
    if len(inside) <= 80:
        assert {round(float(value), 9) for value in inside} == drawn
    assert seconds < (reading.end - reading.start) / 1e9 / 4


def test_looked_at_closely_samples_hold_until_the_next_and_interruptions_are_gaps(reading):
    step = reading.interval_ns / 1e9
    near = draw("utilization", reading.at((20 * step, 30 * step), 200))
    assert None not in near.series[0].values[20:-20], "a sample stands for the interval before it"
    after = (reading.end - reading.start) / 1e9
    beyond = draw("utilization", reading.at((after - 10 * step, after + 10 * step), 200))
    assert beyond.series[0].values[-50:] == [None] * 50


def test_what_the_time_went_into_is_what_steps_are_made_of(reading, window):
    figure = draw("phases_over_time", reading.at(window, 100))
    total = [sum(series.values[at] or 0 for series in figure.series) for at in range(100)]
    assert total == pytest.approx([100.0] * 100, abs=1.0)
    share = {series.key: np.mean(series.values) for series in figure.series}
    told_ = reading.description["breakdown"]
    assert share["data_loading"] == pytest.approx(told_["data_loading"], abs=2)
    early = draw("phases_over_time", reading.at((0.0, window[0] / 4), 10))
    assert sum(value or 0 for series in early.series for value in series.values) == 0


def test_the_last_steps_are_the_last_of_what_is_shown(reading, window):
    seen = reading.at(window, 80)
    figure = draw("last_steps", seen)
    assert len(figure.x) == 30
    assert figure.x[-1] == seen.drawn_steps["step"].max()


def test_chosen_devices_stand_beside_the_mean(reading):
    assert reading.sampled_devices("cpu.core.util") == [f"cpu{n}" for n in range(12)]
    assert sorted(["gpu10", "gpu2", "a"], key=natural) == ["a", "gpu2", "gpu10"]
    figure = draw("cores", reading.at(None, 40, devices=("cpu3", "it's none")))
    assert [series.name for series in figure.series] == ["mean of all cores", "cpu3"]
    assert isinstance(draw("cores", reading.at(None, 40, node="no' node")), str)


def test_steps_and_time_tell_each_other(reading):
    clock = step_clock(reading.steps, reading.start, 5000)
    assert clock["step"][:2] == [1000, 1001]
    assert np.all(np.diff(clock["time"]) > 0)
    assert np.diff(clock["time"]).mean() == pytest.approx(1.0, rel=0.1)
    few = step_clock(reading.steps, reading.start, 10)
    assert len(few["step"]) == 10
    assert (few["step"][0], few["step"][-1]) == (1000, 1200)
    assert step_clock(Table.empty("steps"), 0) == {"step": [], "time": []}


def test_a_run_that_went_back_has_one_time_for_each_step():
    steps = Table.of(
        "steps",
        [
            {"rank": 0, "step": step, "time": at * 10**9, "duration": 10**9}
            for at, step in enumerate([5, 6, 7, 8, 6, 7, 8, 9, 10])
        ],
    )
    clock = step_clock(steps, 0)
    assert clock["step"] == [5, 6, 7, 8, 9, 10, 11]
    assert clock["time"] == [0, 1, 2, 3, 7, 8, 9]


def test_progress_counts_steps_and_says_what_is_left(reading):
    found = progress(reading, 2000)
    assert found["step"] == 1200
    assert found["share_pct"] == 60
    assert found["left_s"] == pytest.approx(800 / found["per_second"])
    assert progress(reading)["left_s"] is None
