"""What the recorder takes from the activities of torch's profiler, and when it lets them go."""

from __future__ import annotations

import json

import pytest
import torch
from tests.windows.test_operators import texts, trained


@pytest.mark.parametrize("name", ["mine", "aten::mine"])
def test_a_range_of_the_script_is_no_operator_whatever_its_name(train, name):
    def work(step):
        for _ in range(2):
            with torch.profiler.record_function(name):
                torch.ones(3).cos()

    _, found = trained(train, work)
    table = found["operators"]
    kinds = sorted(zip(texts(table["name"]), texts(table["kind"]), strict=True))
    assert [kind for called, kind in kinds if called == name] == ["annotation"] * 6
    assert [kind for called, kind in kinds if called == "aten::cos"] == ["operator"] * 6


def test_what_was_found_is_freed_once_it_has_been_told(train):
    made = train(json.dumps({"requests": [{"profiler": "operators", "start_step": 1, "steps": 2}]}))
    made.steps(2)
    running = made.session.windows._running.profiler
    torch.ones(3)
    made.steps(1)
    (told,) = made.told()
    assert told["events"] > 0
    assert (running._result, running._events) == (None, [])
