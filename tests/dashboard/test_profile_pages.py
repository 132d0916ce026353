"""Pages of kernels, Python, loading and tensors as the server draws them: hostile names, many tensors."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from tests.cli.conftest import job, told
from tests.dashboard.made import HOSTILE, imported

from holter.pages.islands import Rendering
from holter.pages.job import pages
from holter.pages.profile import views
from holter.store.job import find
from holter.store.trial import Trial
from holter.store.writer import Writer
from holter.views.reading import Reading

MANY = 10_000
PAGES = ("profile", "performance", "training")
START = 1_700_000_000 * 10**9


def rows(count, steps, name):
    """Return columns of table `tensors`: so many tensors at some steps."""
    total = count * len(steps)
    step = np.repeat(np.array(steps), count)
    numbers = {key: np.linspace(0.5, 2.0, total).astype(np.float32) for key in ("mean", "std", "abs_mean")}
    whole = {
        key: np.zeros(total, np.int64) for key in ("nan", "posinf", "neginf", "zeros", "tiny", "fingerprint")
    }
    spread = ("min", "max", "q05", "q50", "q95", "delta_l2", "delta_abs_mean", "delta_max")
    return {
        "time": START + step * 10**9 + np.tile(np.arange(count), len(steps)),
        "rank": np.zeros(total, np.int32),
        "step": step.astype(np.int32),
        "mode": ["train"] * total,
        "name": [name(number) for number in range(count)] * len(steps),
        "role": ["grad"] * total,
        "state": [""] * total,
        "count": np.full(total, 8, np.int64),
        **whole,
        **numbers,
        **{key: np.ones(total, np.float32) for key in spread},
    }


@pytest.fixture(scope="module")
def readings(tmp_path_factory):
    folder = tmp_path_factory.mktemp("drawn")
    store = str(folder / "store")
    imported(folder / "store", folder)
    told("before", store, ranks=2, cores=2, steps=60, samples=60)
    job("empty", store)
    many = job("many", store)
    writer = Writer(many, "node")
    writer.append(
        "tensors", rows(MANY, (0, 10, 20), lambda n: f"gradient/layers.{n // 4}.{HOSTILE if n == 7 else n}")
    )
    fact = {
        "step": 12,
        "direction": "backward",
        "module": HOSTILE,
        "operation": "LogBackward0",
        "input": {"min": 0.0},
    }
    writer.append(
        "events",
        {
            "time": [START],
            "rank": [0],
            "kind": ["nonfinite"],
            "name": [HOSTILE],
            "detail": [json.dumps(fact)],
        },
    )
    writer.close()
    return {
        name: Reading(Trial(find(store, name)), width=60) for name in ("trace", "before", "empty", "many")
    }


def drawn(reading, name, /, **asked):
    return pages()[name].draw(reading, {"store": "0", **asked}, Rendering())


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("name", ["trace", "before", "empty", "many"])
def test_no_name_and_no_parameter_becomes_markup(readings, name, page):
    asked = {
        "annotation": HOSTILE, "shown": HOSTILE, "search": HOSTILE, "function": HOSTILE, "source": HOSTILE,
        "tensor": HOSTILE, "mode": "train", "collection": HOSTILE, "role": HOSTILE,
    }  # fmt: skip
    for given in ({}, asked, *({**asked, "view": view} for view in views() if page == "profile")):
        text = drawn(readings[name], page, **given)
        assert "<img" not in text
        assert "<script" not in text
        assert text.startswith("<h1>")


@pytest.mark.parametrize("page", PAGES)
def test_an_empty_job_says_how_to_get_the_data(readings, page):
    text = drawn(readings["empty"], page)
    assert 'class="empty"' in text
    assert re.search(r"<code>holter (run|profile|import)", text)


def test_ten_thousand_tensors_are_a_page_at_a_time(readings):
    text = drawn(readings["many"], "training")
    assert f"{MANY:,} tensors" in text
    assert text.count("?tensor=") + text.count("tensor=gradient") >= 100
    assert len(text) < 400_000
    second = drawn(readings["many"], "training", page="1", search="layers.12")
    assert "Tensors 101 to" in second
    none = drawn(readings["many"], "training", search="nothing like that")
    assert "No matching tensors." in none
    assert "9,700 more tensors are not drawn" in text


def test_the_first_nan_is_told_with_what_led_to_it(readings):
    text = drawn(readings["many"], "training")
    assert "step 12 of rank 0" in text
    assert "backward pass" in text
    assert "LogBackward0" in text
    assert "not finite" not in drawn(readings["before"], "training").split("<h2>")[0]


@pytest.mark.parametrize(
    ("page", "asked", "said"),
    [
        ("profile", {"device": "9"}, "no device 9"),
        ("profile", {"rank": "x"}, "rank is 'x'"),
        ("profile", {"most": "1000"}, "1 to 100"),
        ("profile", {"view": "flame", "first": "-3"}, "first is '-3'"),
        ("profile", {"view": "x"}, "there are: kernels, operators, flame, memory"),
        ("training", {"map": "l3"}, "no statistic 'l3'"),
    ],
)
def test_what_is_asked_wrongly_is_said(readings, page, asked, said):
    reading = readings["many" if page == "training" else "trace"]
    with pytest.raises(ValueError, match=re.escape(said)):
        drawn(reading, page, **asked)


@pytest.mark.parametrize("view", ["kernels", "operators", "memory"])
def test_a_rank_that_was_not_profiled_is_said_to_be(readings, view):
    text = drawn(readings["trace"], "profile", rank="9", view=view)
    assert "Rank 9 was not profiled; other ranks were." in text
    assert "No Python code of rank 9 was profiled." in drawn(
        readings["before"], "profile", rank="9", view="flame"
    )
    assert "Rank 1 was not" not in drawn(readings["trace"], "profile", rank="1", view=view)


def test_the_profiler_has_its_thirteen_panels(readings):
    trace = readings["trace"]
    text = "".join(drawn(trace, "profile", view=view, annotation="augment") for view in views())
    for title in (
        "GPU active time", "GPU utilization", "Time of all kernels", "kernels with most time",
        "Launches of all kernels", "kernels with most launches", "Step times on GPUs", "Precision of kernels",
        "GPU activity", "GPU memory operations", "Durations of augment",
    ):  # fmt: skip
        assert title in text, title
    system = drawn(readings["before"], "system")  # panels 3 and 4: a trace has no samples of the machine
    assert "CPU active time" in system
    assert "CPU utilization" in system


def test_a_view_is_chosen_by_what_was_recorded(readings):
    assert 'aria-current="true">Kernels' in drawn(readings["trace"], "profile")
    assert 'aria-current="true">Flame' in drawn(readings["before"], "profile")
    assert "Nothing was profiled" in drawn(readings["empty"], "profile")
    assert "No Python code was profiled" in drawn(readings["empty"], "profile", view="flame")


def test_shares_of_the_host_are_of_the_own_time_of_all_ranks(readings):
    told = readings["trace"].description["operators"]["cpu"]
    main = next(one for one in told if one["name"].endswith("main"))
    whole_ms = sum(one["total_ms"] for one in told)
    assert main["pct"] == pytest.approx(100 * main["total_ms"] / whole_ms, rel=0.01)
    assert sum(one["pct"] for one in told) == pytest.approx(100)


def test_loading_is_told_in_the_words_of_the_verdict(readings):
    reading = readings["before"]
    text = drawn(reading, "performance")
    assert reading.description["verdict"]["suspect"] == "data_pipeline"
    assert reading.description["verdict"]["sentence"].replace("'", "&#39;") in text
    assert "Advice" in text
