"""Charts as data: what is drawn is what was recorded, and nothing stands where nothing was."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from tests.cli.conftest import job, told
from tests.generated.story import story

from holter.store.trial import Trial
from holter.store.writer import Writer
from holter.views.figure import Figure
from holter.views.figures import draw, names
from holter.views.figures._buckets import buckets, mean, quantiles
from holter.views.reading import Reading


@pytest.fixture(scope="module")
def reading(tmp_path_factory):
    store = str(tmp_path_factory.mktemp("figures") / "store")
    folder, _ = told("before", store, ranks=2, cores=4, steps=200, samples=400)
    return Reading(Trial(folder), width=50)


@pytest.mark.parametrize("name", names())
def test_every_chart_is_drawn_or_says_why_not(name, reading):
    figure = draw(name, reading)
    if isinstance(figure, str):
        assert figure.endswith((".", ")"))
        return
    assert figure.title
    assert figure.series
    json.dumps(figure.to_json(), allow_nan=False)
    for series in figure.series:
        if figure.kind == "stretches":
            assert len(series.values) == len(series.low) == len(series.high)
            continue
        if figure.kind == "constants":
            assert (len(series.values), figure.x) == (1, [])
            continue
        edges = figure.kind == "bars" and len(figure.x) == len(series.values) + 1
        assert edges or len(series.values) == len(figure.x)


@pytest.mark.parametrize("name", names())
def test_of_an_empty_job_every_chart_says_what_is_missing(name, tmp_path):
    assert isinstance(draw(name, Reading(Trial(job("empty", str(tmp_path / "store"))))), str)


def test_readings_of_a_clock_that_is_years_off_are_drawn(tmp_path):
    """Nanoseconds of years times the width of a chart are more than 64 bits hold."""
    folder = job("machine", str(tmp_path / "store"))
    samples = story("before", ranks=1, cores=2, steps=20, samples=60).samples
    writer = Writer(folder, "node-0")
    writer.append("samples", samples.columns)
    writer.close()
    folder.update(start=int(samples["time"][0]), end=int(samples["time"][0]) + 10**17)
    early = draw("utilization", Reading(Trial(folder)))
    assert early.series[0].values[0] is not None
    folder.update(start=int(samples["time"][0]) + 9 * 10**16)
    assert draw("utilization", Reading(Trial(folder))).series


def test_an_unknown_chart_is_refused_with_those_there_are(reading):
    with pytest.raises(KeyError, match="step_times"):
        draw("steptimes", reading)


def test_parts_of_a_step_add_up_to_it(reading):
    parts, times = draw("breakdown_over_steps", reading), draw("step_times", reading)
    assert isinstance(parts, Figure)
    assert isinstance(times, Figure)
    total = [sum(series.values[at] or 0 for series in parts.series) for at in range(len(parts.x))]
    assert total == pytest.approx(np.full(len(total), 1000), rel=0.06)
    assert [series.key for series in parts.series] == ["data_loading", "forward", "backward", "optimizer"]
    low, high = times.series[0].low, times.series[0].high
    assert all(a <= b <= c for a, b, c in zip(low, times.series[0].values, high, strict=True))


def test_every_step_is_in_the_histogram_once(reading):
    figure = draw("step_histogram", reading)
    beyond = re.search(r"Not drawn: ([\d,]+)", figure.note)
    assert figure.note.startswith("398 steps, ")
    assert sum(figure.series[0].values) + int(beyond[1] if beyond else 0) == 2 * 199


def test_devices_stand_in_their_order_gpus_first(reading):
    figure = draw("devices", reading)
    assert [series.name for series in figure.series] == ["gpu0", "gpu1", "cpu0", "cpu1", "cpu2", "cpu3"]


def test_a_stretch_without_samples_is_a_gap(tmp_path):
    folder, made = told("before", str(tmp_path / "store"), ranks=1, cores=1, steps=30, samples=40)
    start = made.manifest["start"]
    late = Reading(Trial(folder), now_ns=start)
    folder.update(end=start + 10 * (made.manifest["end"] - start))
    figure = draw("utilization", late)
    values = figure.series[0].values
    assert values[0] is not None
    assert values[-1] is None


@pytest.mark.parametrize(("rate", "unit", "shown"), [(744.0, "B/s", 744.0), (3.2e8, "MB/s", 320.0)])
def test_throughput_has_the_unit_that_it_needs(tmp_path, rate, unit, shown):
    folder = job("rates", str(tmp_path))
    start = int(folder.manifest()["start"])
    times = [start + at * 10**9 for at in range(1, 6)]
    writer = Writer(folder, "n0")
    writer.append(
        "samples", {"time": times, "metric": ["net.tx"] * 5, "device": [""] * 5, "value": [rate] * 5}
    )
    writer.close()
    folder.update(end=start + 6 * 10**9)
    figure = draw("network", Reading(Trial(folder), width=10))
    assert figure.y_axis.unit == unit
    assert max(value for value in figure.series[0].values if value is not None) == pytest.approx(shown)


def test_a_network_without_traffic_is_a_number(tmp_path):
    folder = job("silent", str(tmp_path))
    start = int(folder.manifest()["start"])
    writer = Writer(folder, "n0")
    rows = {"time": [start + 10**9], "metric": ["net.rx"], "device": [""], "value": [0.0]}
    writer.append("samples", rows)
    writer.close()
    folder.update(end=start + 6 * 10**9)
    figure = draw("network", Reading(Trial(folder), width=10))
    assert figure.kind == "constants"
    assert [(one.name, one.values) for one in figure.series] == [("received", [0.0])]


def test_buckets_hold_every_value_once():
    position = np.arange(1000)
    at = buckets(position, 0, 999, 7)
    assert at.min() == 0
    assert at.max() == 6
    values = position.astype(float)
    values[at == 3] = np.nan
    assert mean(at, values, 7)[3] is None
    assert mean(at, values, 7)[0] == pytest.approx(values[at == 0].mean())
    low, middle, high = quantiles(at, values, 7, (0.0, 0.5, 1.0))
    assert low[3] is middle[3] is high[3] is None
    assert (low[6], high[6]) == (values[at == 6].min(), values[at == 6].max())
    assert middle[5] == pytest.approx(np.median(values[at == 5]), abs=1)
