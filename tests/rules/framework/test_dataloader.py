"""Tests of the rule Dataloader."""

from __future__ import annotations

import json

import pytest
from tests.rules.loaders import fetches
from tests.rules.overheads import WARM
from tests.rules.tables import SECOND, START, found, look, samples, steps

from holter.rules.framework.dataloader import Dataloader
from holter.schema.table import Table

# --- Dataloader


@pytest.mark.parametrize(("seconds", "fires"), [(11, True), (5, False)])
def test_p14_p15_one_loader_process_on_four_cores(seconds, fires):
    rule = Dataloader.of(defaults="classic")
    issues, window = look(rule, job=WARM, spans=fetches([0.5], count=seconds))
    assert [i.code for i in issues] == (["too_few"] if fires else [])
    assert window.details["dataloaders"] == 1
    if not fires:
        assert (window.lack.reason, window.lack.have, window.lack.need) == ("patience_not_reached", 5, 11)


def test_the_modern_profile_asks_whether_training_waits():
    one = {"spans": fetches([0.5], count=60)}
    rule = Dataloader(min_threshold=50)
    waiting = steps([1.0] * 70, data_loading=0.5, forward=0.5)
    assert [i.code for i in found(rule, job=WARM, steps=waiting, **one)] == ["too_few"]
    assert found(rule, job=WARM, steps=steps([1.0] * 70, forward=1.0), **one) == []


def test_more_processes_than_cores_only_hurt_when_they_queue():
    many = {"spans": fetches([0.9] * 12, count=60)}
    queued = samples({("cpu.load1", ""): [14.0] * 120})
    assert [i.code for i in found(Dataloader(), job=WARM, samples=queued, **many)] == ["too_many"]
    idle = samples({("cpu.load1", ""): [2.0] * 120})
    assert found(Dataloader(), job=WARM, samples=idle, **many) == []
    assert found(Dataloader.of(defaults="classic"), job=WARM, **many)


def test_details_of_the_loader():
    detail = json.dumps({"workers": 1, "pin_memory": True, "prefetch_factor": 2})
    loader = Table.of("events", [{"time": START, "rank": 0, "kind": "loader", "detail": detail}])
    waits = Table.of(
        "spans",
        [
            {"time": START + i * SECOND, "duration": (i + 1) * 10**7, "phase": "data_loading", "node": "n0"}
            for i in range(20)
        ],
    )
    spans = Table.concat([fetches([0.5], count=20), waits])
    _, window = look(Dataloader.of(defaults="classic"), job=WARM, spans=spans, events=loader)
    details = window.details
    assert (details["pin_memory"], details["num_workers"], details["prefetch"]) == (True, 1, 2)
    assert (details["cores"], details["dataloaders"]) == (4, 1)
    assert details["dataloading_time_ms"]["p50"] == pytest.approx(105, rel=0.06)
    assert sum(details["dataloading_time_ms"]["histogram"]) == 20
    assert len(details["dataloading_time_ms"]["histogram"]) == 100
