"""Charts of several jobs on the same axes: whose line is where, and what is not known stays a gap."""

from __future__ import annotations

from statistics import median

import pytest
from tests.cli.conftest import job, told

from holter.dashboard.answers import RefusalError
from holter.dashboard.overlays import overlaid, places
from holter.dashboard.stores import Stores
from holter.views.comparison.overlays import OVERLAYS


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    store = str(tmp_path_factory.mktemp("overlaid") / "store")
    for name in ("before", "after"):
        told(name, store, ranks=2, cores=2, steps=100, samples=100)
    job("empty", store)
    return Stores([store])


def test_a_line_for_each_job_with_its_own_numbers(stores):
    of = places(stores, ["0/after", "0/before"])
    drawn = overlaid(stores, of, OVERLAYS, 200)
    times = {one.name: median(filter(None, one.values)) for one in drawn["step_times"].series}
    assert times["before"] / times["after"] == pytest.approx(2.27, rel=0.05)
    for one in drawn["step_histogram"].series:
        assert sum(one.values) == pytest.approx(100)
    busy = {one.name: median(filter(None, one.values)) for one in drawn["gpu"].series}
    assert busy["before"] < 50 < busy["after"]
    assert drawn["gpu"].y_axis.unit == "%"


def test_a_job_without_what_a_chart_shows_keeps_its_place_and_has_no_line(stores):
    of = places(stores, ["0/empty", "0/before"])
    drawn = overlaid(stores, of, ["losses"], 50)["losses"]
    assert {one.name: any(one.values) for one in drawn.series} == {"empty": False, "before": True}
    assert overlaid(stores, of[-1:], ["losses"], 50)["losses"] is None


def test_what_cannot_be_compared_is_refused(stores):
    with pytest.raises(RefusalError, match="select two"):
        places(stores, ["0/before"])
    with pytest.raises(LookupError, match="nothing"):
        places(stores, ["0/before", "0/nothing"])
    with pytest.raises(KeyError, match="step_times"):
        overlaid(stores, places(stores, ["0/after", "0/before"]), ["x"], 50)
