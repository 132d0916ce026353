"""What pages say of jobs that are silent, failed or not known well, and how many tabs are answered."""

from __future__ import annotations

import asyncio
import json
import time

import pytest
from starlette.requests import Request
from starlette.testclient import TestClient
from tests.cli.conftest import job
from tests.dashboard.serving import BEARER

from holter.dashboard.answers import kept
from holter.dashboard.server import application
from holter.dashboard.stores import Stores
from holter.pages.drawer import configuration
from holter.pages.islands import Rendering
from holter.pages.job import overview, performance
from holter.pages.overview.hero import headline
from holter.pages.text import report
from holter.store.job import create
from holter.store.trial import Trial
from holter.store.writer import Writer
from holter.views.figures import draw
from holter.views.reading import Reading


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    folder = tmp_path_factory.mktemp("said")
    job("empty", str(folder))
    job("failed", str(folder), status="Failed", exit_code=1)
    job("silent", str(folder), status="InProgress", age_s=600)
    return folder


def test_a_job_that_should_run_and_is_silent_is_said_to_be(store):
    with TestClient(application([str(store)], "secret-token"), headers=BEARER) as client:
        assert "its agent said nothing for 10 min" in client.get("/jobs/silent").text
        assert "its agent said nothing" not in client.get("/jobs/empty").text
        listed = client.get("/?name=failed").text.partition("<tbody>")[2]
        assert "exit code 1" in listed, "of a job without a card the list says how it ended"


def test_what_nobody_knows_of_loading_is_said_once(tmp_path):
    waiting = create(str(tmp_path), "waiting", command=[], interval_ms=500, rules=[], now_ns=10**18)
    waiting.update(start=10**18, end=10**18 + 10**10, status="Completed")
    writer = Writer(waiting, "one")
    row = {"rank": [0], "step": [0], "mode": ["train"]}
    writer.append(
        "steps", {**row, "time": [10**18], "duration": [10**9], "data_loading": [10**8], "other": [9 * 10**8]}
    )
    writer.close()
    page = performance.draw(Reading(Trial(waiting)), {}, Rendering())
    assert page.count("no torch DataLoader was used") == 1
    assert "<table" not in page.partition("Data loading</h2>")[2]


def test_the_page_about_loading_draws_a_pipeline_of_tf_data(tmp_path):
    folder = create(str(tmp_path), "piped", command=[], interval_ms=500, rules=[], now_ns=10**18)
    folder.update(start=10**18, end=10**18 + 10**10, status="Completed")
    stages = [
        {"name": "TensorSlice", "elements": 3200, "ms": 5.0},
        {"name": "ParallelMap", "elements": 3200, "ms": 6400.0, "function": "decode (train.py:3)",
         "parallelism": 2, "buffer": 2, "tuned": True},
        {"name": "BatchV2", "elements": 100, "ms": 400.0},
    ]  # fmt: skip
    fact = {"dataset": 0, "elements": 100, "stages": stages, "process": "1", "time": 1}
    writer = Writer(folder, "one")
    row = {"rank": [0], "time": [10**18]}
    steps = {"step": [0], "mode": ["train"], "duration": [10**9], "data_loading": [10**8]}
    writer.append("steps", {**row, **steps})
    writer.append("events", {**row, "kind": ["pipeline"], "detail": [json.dumps(fact)]})
    writer.close()
    reading = Reading(Trial(folder))
    figure = draw("pipeline_stages", reading)
    assert figure.x == ["1. TensorSlice", "2. decode (train.py:3) in ParallelMap", "3. BatchV2"]
    work, at_once = (series.values for series in figure.series)
    assert (work, at_once) == ([0.05, 64.0, 4.0], [0.05, 32.0, 4.0])
    page = performance.draw(reading, {}, Rendering())
    assert "Here that is decode (train.py:3) in ParallelMap." in page
    assert "It makes the next batch" not in page
    assert "tf.data (AUTOTUNE)" in page
    assert "no torch DataLoader was used" not in page


def test_tabs_that_ask_at_once_are_answered_by_one_thread(store):
    class Counted(Stores):
        asked = 0

        def kept(self, *args, **named):
            self.asked += 1
            return super().kept(*args, **named)

    stores = Counted([str(store)])
    request = Request(
        {"type": "http", "headers": [], "query_string": b"", "path_params": {"job": "empty"}, "path": "/"}
    )

    async def tabs():
        ask = [
            kept(stores, request, "one", lambda reading: reading.trial.folder.name.encode())
            for _ in range(20)
        ]
        return [answer.body for answer in await asyncio.gather(*ask)]

    assert asyncio.run(tabs()) == [b"empty"] * 20
    assert stores.asked == 1
    assert not stores.making


def test_callbacks_are_named_below_the_parts_of_a_step(tmp_path):
    named = create(str(tmp_path), "named", command=[], interval_ms=500, rules=[], now_ns=10**18)
    named.update(start=10**18, end=10**18 + 10**10, status="Completed")
    writer = Writer(named, "one")
    for step in range(20):
        begin = 10**18 + step * 10**8
        rows = [
            ("step", "", begin, 10**8),
            ("forward", "Net", begin, 6 * 10**7),
            ("annotation", "callback Saves.on_train_batch_end", begin + 7 * 10**7, 2 * 10**7),
        ]
        keys = ("phase", "name", "time", "duration")
        columns = dict(zip(keys, map(list, zip(*rows, strict=True)), strict=True))
        where = {"rank": [0] * 3, "step": [step] * 3, "mode": ["train"] * 3, "worker": [-1] * 3}
        writer.append("spans", {**columns, **where, "thread": [0] * 3})
    writer.close()
    reading = Reading(Trial(named))
    row = '<td>callback Saves.on_train_batch_end</td><td>other</td><td class="n">20.0 %</td>'
    assert row in performance.draw(reading, {}, Rendering())
    assert row in "".join(report.body(reading))


def _steps(store, name, *, slow=None, **job_facts):
    """Record 60 steps of 100 ms, one of them slow if asked for; `job_facts` go into the manifest."""
    made = create(
        str(store),
        name,
        command=["python", "train.py", "--lr", "0.1"],
        interval_ms=500,
        rules=[],
        now_ns=10**18,
    )
    made.update(**{"start": 10**18, "end": 10**18 + 10**10, "status": "Completed", **job_facts})
    writer, begin = Writer(made, "one"), 10**18
    for step in range(60):
        took = 10**9 if step == slow else 10**8
        row = {"rank": [0], "step": [step], "mode": ["train"], "time": [begin], "duration": [took]}
        writer.append("steps", {**row, "data_loading": [took // 2], "other": [took - took // 2]})
        begin += took
    writer.close()
    return made


def test_a_slow_step_is_a_link_to_the_timeline(tmp_path):
    reading = Reading(Trial(_steps(tmp_path, "slow", slow=41)))
    for page in (overview, performance):
        assert 'href="/jobs/slow/timeline?store=0&amp;step=41' in page.draw(reading, {}, Rendering())
    assert "#timeline" in overview.draw(reading, {}, Rendering(standalone=True))


def test_a_failure_comes_before_speed_and_a_young_job_is_not_judged(tmp_path):
    failed = Reading(Trial(_steps(tmp_path, "failed", status="Failed", exit_code=3)))
    first = headline(failed)
    assert first.mood == "sick"
    assert "exit code 3" in first.text
    assert first.speed == failed.description["verdict"]["sentence"]
    young = create(str(tmp_path), "young", command=["x"], interval_ms=500, rules=[], now_ns=time.time_ns())
    young.update(start=time.time_ns(), status="InProgress")
    first = headline(Reading(Trial(young)))
    assert first.mood == "waiting"
    assert "No training step so far" in first.text
    page = overview.draw(Reading(Trial(young)), {}, Rendering())
    assert "start the training with" not in page, "it was"


def test_a_job_that_holter_ran_is_not_told_to_run_with_holter(tmp_path):
    made = create(str(tmp_path), "none", command=["x"], interval_ms=500, rules=[], now_ns=time.time_ns())
    made.update(start=time.time_ns() - 10**9, end=time.time_ns(), status="Completed", exit_code=0)
    page = overview.draw(Reading(Trial(made)), {}, Rendering())
    assert "no framework that holter records was imported" in page
    assert "start the training with" not in page, "it was"


def test_large_rates_are_written_out(tmp_path):
    made = create(str(tmp_path), "fast", command=["x"], interval_ms=500, rules=[], now_ns=time.time_ns())
    writer, count = Writer(made, "node"), 100
    begins = [time.time_ns() + step * 500_000 for step in range(count)]
    parts = {"data_loading": [0] * count, "other": [500_000] * count}
    writer.append(
        "steps",
        {"rank": [0] * count, "step": list(range(count)), "mode": ["train"] * count, "time": begins}
        | {"duration": [500_000] * count, **parts},
    )
    writer.close()
    made.update(start=begins[0], end=begins[-1] + 500_000, status="Completed", exit_code=0)
    assert "2,000 steps/s" in overview.draw(Reading(Trial(made)), {}, Rendering())


def test_the_configuration_says_what_was_recorded_and_what_was_not(tmp_path):
    recorded = {"code": {"revision": "a" * 40, "branch": "main"}, "packages": {"torch": "2.13.0"}}
    reading = Reading(Trial(_steps(tmp_path, "set", recorded=recorded)))
    page = configuration.draw(reading, {}, Rendering())
    for text in (
        "python train.py --lr 0.1",
        "a" * 40,
        "torch",
        "2.13.0",
        "No variable that decides about speed",
    ):
        assert text in page, text
    assert "<td>lr</td><td><code>0.1</code></td>" in page
    bare = configuration.draw(Reading(Trial(_steps(tmp_path, "bare"))), {}, Rendering())
    assert bare.count("Not recorded") == 3
