"""The compiled observer of operators: it sees what torch's profiler sees, on all threads, leaving nothing."""

from __future__ import annotations

import json
import os
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.windows.test_operators import rows, texts, trained

from holter.recorder.profilers import _observer

HEADER = Path(torch.__file__).parent / "include" / "ATen" / "record_function.h"


def seen(train, work) -> list[tuple[str, str, int]]:
    """Return name, kind and step of what was collected."""
    _, found = trained(train, work)
    table = found["operators"]
    return sorted(zip(texts(table["name"]), texts(table["kind"]), table["step"].tolist(), strict=True))


def test_it_sees_what_torchs_profiler_sees(observer, train, monkeypatch):
    model = torch.nn.Sequential(torch.nn.Linear(4, 2), torch.nn.ReLU())
    optimizer = torch.optim.SGD(model.parameters(), 0.1)

    def work(step):
        for name in ("mine", "aten::mine", f"ümlaut {step}"):
            with torch.profiler.record_function(name):
                optimizer.zero_grad()
                model(torch.ones(3, 4)).sum().backward()
        optimizer.step()

    ours = seen(train, work)
    monkeypatch.setattr(_observer, "load", lambda torch: None)
    assert ours == seen(train, work)
    assert ("ümlaut 3", "annotation", 3) in ours
    assert ("aten::mine", "annotation", 3) in ours


def test_times_are_those_of_the_clock(observer, train):
    spans = []

    def work(step):
        begin = time.perf_counter_ns()
        with torch.profiler.record_function("mine"):
            time.sleep(0.01)
        spans.append((begin, time.perf_counter_ns()))

    told, found = trained(train, work)
    assert told["observed"] is True
    table = found["operators"]
    mine = [at for at, name in enumerate(texts(table["name"])) if name == "mine"]
    begins, durations = table["time"][mine] - 10**18, table["duration"][mine]
    for begin, duration, (least, most) in zip(begins, durations, spans[2:5], strict=True):
        assert least <= begin
        assert begin + duration <= most
        assert duration >= 10**7


def test_threads_that_come_and_go(observer, train):
    def work(step):
        def one():
            for _ in range(100):
                torch.ones(3).cos()

        started = [threading.Thread(target=one) for _ in range(4)]
        for thread in started:
            thread.start()
        for thread in started:
            thread.join()

    _, found = trained(train, work)
    table = found["operators"]
    names = texts(table["name"])
    assert names.count("aten::cos") == names.count("aten::ones") == 3 * 4 * 100
    assert len(set(table["thread"].tolist())) >= 4
    assert (table["duration"] > 0).all()


def test_a_range_that_is_open_across_windows(observer, train):
    made = train()
    made.ask(*[{"profiler": "operators", "steps": 1}] * 4)
    for _ in range(10):
        with torch.profiler.record_function("outer"):
            torch.ones(1000).cos()
            made.steps(1)
    windows = made.told()
    # Each as soon as the one before has been written.
    firsts = [one["first_step"] for one in windows]
    assert len(firsts) == 4
    assert firsts == sorted(set(firsts))
    for told in windows:
        table = rows(made.spool / told["file"], told)["operators"]
        names = texts(table["name"])
        # The range of the step before was not seen to begin; the one of this step is cut at its end.
        assert names.count("outer") == names.count("aten::cos") == 1
        outer = names.index("outer")
        assert table["time"][outer] + table["duration"][outer] - 10**18 == told["bounds"][-1]


def test_windows_begin_and_end_while_other_threads_compute(observer, train):
    made = train()
    enough = threading.Event()

    def compute():
        while not enough.is_set():
            with torch.profiler.record_function("other"):
                torch.ones(10).cos()

    threads = [threading.Thread(target=compute) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(40):
            made.ask({"profiler": "operators", "steps": 1})
            made.steps(1)
            torch.ones(10).sin()
            made.steps(1)
    finally:
        enough.set()
        for thread in threads:
            thread.join()
    windows = made.told()
    assert len(windows) == 40
    for told in windows:
        table = rows(made.spool / told["file"], told)["operators"]
        assert texts(table["name"]).count("aten::sin") == 1
        assert set(texts(table["name"])) <= {"other", "aten::ones", "aten::empty", "aten::fill_", "aten::sin",
                                             "aten::cos"}  # fmt: skip


def test_a_child_collects_nothing_disturbs_nothing_and_can_do_its_own(observer, train):
    def work(step):
        child = os.fork()
        if child == 0:
            held = -1
            try:
                (torch.ones(3) + 1).sum()  # nothing that computes on threads of its own, which a child lacks
                held = observer.events()
                observer.begin(100)
                torch.ones(3)
                observer.end()
                held += 0 if observer.events() else 1
            finally:
                os._exit(held)
        assert os.waitpid(child, 0)[1] == 0
        torch.ones(3).cos()

    _, found = trained(train, work)
    names = texts(found["operators"]["name"])
    assert names.count("aten::cos") == 3
    assert "aten::sum" not in names


def test_more_than_there_is_room_for(observer, train, monkeypatch):
    monkeypatch.setattr(_observer, "MAX_EVENTS", 1)

    def work(step):
        for _ in range(5000):
            torch.ones(3)

    told, found = trained(train, work)
    assert (told["first_step"], told["last_step"]) == (2, 4)  # the step after the one in which it was seen
    assert "1 events" in told["cut"]
    assert len(found["operators"]["time"]) == told["events"]
    assert told["events"] + told["lost"] >= 5000 * 2  # each is an `empty` and a `fill_`, too


def test_more_names_than_are_kept_apart(observer, train):
    def work(step):
        if step == 2:
            for number in range(70_000):
                with torch.profiler.record_function(f"range {number}"):
                    pass

    _, found = trained(train, work)
    table = found["operators"]
    names = np.array(table["name"][1])
    assert len(table["time"]) >= 70_000
    codes, counts = np.unique(table["name"][0], return_counts=True)
    many = counts[names[codes] == "(one name too many)"]
    assert many.tolist() == [70_000 - 65_535 + 1]


def test_windows_one_after_the_other_hold_no_memory(observer, train):
    made = train()
    held = []
    for _ in range(12):
        made.ask({"profiler": "operators", "steps": 1})
        made.steps(1)
        for _ in range(20_000):
            torch.ones(3)
        made.steps(1)
        held.append(observer.events())
        pages = Path("/proc/self/statm").read_text().split()[1]
        held.append(int(pages))
    assert held[0::2] == [0] * 12
    assert held[-1] - held[3] < 1500  # of 4 KiB; each window's events were 1.4 MB
    assert not observer.busy


def test_only_a_torch_that_declares_what_is_expected(observer):
    header = HEADER.read_text()
    assert _observer._as_expected(header)
    for known, other in (
        ("bool needs_ids_ = false;", "bool needs_ids_ = false; int more_ = 0;"),
        ("USER_SCOPE,", "ANOTHER, USER_SCOPE,"),
        ("double sampling_prob_ = 1.0;", "float sampling_prob_ = 1.0;"),
        ("virtual ~ObserverContext() = default;", "~ObserverContext() = default;"),
    ):
        assert known in header
        assert not _observer._as_expected(header.replace(known, other))


def test_it_can_be_switched_off(observer, train, monkeypatch):
    monkeypatch.setenv("HOLTER_COMPILE", "0")
    monkeypatch.setattr(_observer, "_loaded", [])
    assert _observer.load(torch) is None
    made = train(json.dumps({"requests": [{"profiler": "operators", "start_step": 1, "steps": 1}]}))
    made.steps(1)
    torch.ones(3)
    made.steps(1)
    (told,) = made.told()
    assert "observed" not in told
    assert told["events"] > 0


@pytest.mark.parametrize("work", ["nothing", "much"])
def test_the_training_goes_on_while_what_was_observed_is_written(observer, train, work):
    made = train(json.dumps({"requests": [{"profiler": "operators", "start_step": 1, "steps": 1}]}))
    made.steps(1)
    for _ in range(100_000 if work == "much" else 0):
        torch.ones(3)
    made.steps(1)
    (told,) = made.told()
    table = rows(made.spool / told["file"], told)["operators"]
    assert texts(table["name"]).count("aten::ones") == (100_000 if work == "much" else 0)
    assert made.session.since >= told["bounds"][-1] + told["stop_ns"]
