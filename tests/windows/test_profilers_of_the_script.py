"""torch has one profiler at a time: that of the script comes first."""

from __future__ import annotations

import json
import threading

import torch


def test_a_script_that_profiles_itself_is_not_disturbed(train, tmp_path):
    made = train(json.dumps({"requests": [{"profiler": "operators", "start_step": 1, "steps": 50}]}))
    made.steps(3)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as theirs:
        torch.ones(3) + 1
        made.steps(2)
        made.ask({"profiler": "operators", "steps": 1})
        made.steps(2)
    assert "aten::add" in {event.name for event in theirs.events()}
    assert [one["refused"] for one in made.told()] == [
        "the script started a profiler of its own",
        "the script runs a profiler of its own",
    ]
    made.ask({"profiler": "operators", "steps": 1})
    made.steps(3)
    assert len(made.ranges()) == 1


def test_a_script_that_profiles_itself_in_another_thread_is_not_disturbed(train):
    made = train(json.dumps({"requests": [{"profiler": "operators", "start_step": 1, "steps": 1000}]}))
    made.steps(3)
    found, asked, enough = [], threading.Event(), threading.Event()

    def other():
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as theirs:
            torch.ones(3).tan()
            made.ask({"profiler": "operators", "steps": 1})
            asked.set()
            enough.wait(30)
        found.extend(event.name for event in theirs.events())

    thread = threading.Thread(target=other)
    thread.start()
    while not asked.wait(0.005):
        made.steps(1)
    made.steps(2)
    enough.set()
    thread.join()
    assert "aten::tan" in found
    made.steps(2)
    assert not torch._C._autograd._profiler_enabled(), "ours has ended on its thread"
    assert [one["refused"] for one in made.told()] == [
        "the script started a profiler of its own",
        "the script runs a profiler of its own",
    ]
