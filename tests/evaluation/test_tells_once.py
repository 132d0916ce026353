"""What a rule tells once stays open while it is silent; what it tells as long as it lasts is resolved."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from holter.evaluation import RuleRun
from holter.rules import Job, Lookback, Rule, Window, find
from holter.schema.table import Table

S = 10**9
EVERY = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Both(Rule):
    """Tells an event and a level at its first look, and is silent from then on."""

    tells_once = ("event",)

    @property
    def lookback(self) -> Lookback:
        return Lookback(seconds=60.0)

    def evaluate(self, window: Window) -> Any:
        window.judged(1)
        if window.start == 0:
            yield self.issue("it happened", code="event")
            yield self.issue("it is high", code="level")


def looked(rule: Rule, looks: int, **tables: Table) -> dict[str, str]:
    """Look every minute; return the status of each issue by its code."""
    warm = dict.fromkeys((0, 1), 1)
    nodes = {"n0": {"cpus": 4}}
    run = RuleRun(type(rule).__name__, rule)
    for i in range(looks):
        job = Job(start=0, first_step=0, warm=warm, nodes=nodes)
        cut = {"start": i * EVERY * S, "end": (i + 1) * EVERY * S}
        run.evaluate(Window.of(rule.lookback, job=job, state=run.state, **cut, **tables))
    assert not run.error
    return {issue["code"]: issue["status"] for issue in run.shown()["issues"]}


def readings(metric: str, values: dict[int, float], device: str = "") -> list[dict[str, Any]]:
    return [
        {"time": t * S, "node": "n0", "device": device, "metric": metric, "value": v}
        for t, v in values.items()
    ]


def event(kind: str, detail: str = "") -> Table:
    row = {"time": 30 * S, "node": "n0", "rank": 0, "kind": kind, "name": kind, "detail": detail}
    return Table.of("events", [row])


def steps(count: int, *, first_s: float = 1.0) -> Table:
    """Steps of two ranks on two nodes, one a second, which wait for each other."""
    rows = []
    for rank in (0, 1):
        for step in range(count):
            duration = first_s if step == 0 else 1.0
            end = first_s + step
            rows.append(
                {
                    "time": int((end - duration) * S), "duration": int(duration * S), "rank": rank,
                    "step": step, "mode": "train", "node": f"n{rank}", "communication": S // 10,
                }
            )  # fmt: skip
    return Table.of("steps", rows)


def test_only_the_codes_that_are_told_once_stay_open():
    assert looked(Both(), 1) == {"event": "open", "level": "open"}
    assert looked(Both(), 6) == {"event": "open", "level": "resolved"}


LOOKS = 45
SECONDS = range(0, LOOKS * EVERY, 5)
CASES = {
    "HardwareError": (
        "xid_79",
        {
            "samples": readings("gpu.xid", {30: 79.0}, "gpu0")
            + readings("gpu.ecc_uncorrected", dict.fromkeys(SECONDS, 0.0), "gpu0")
        },
    ),
    "OutOfMemoryRisk": (
        "failed",
        {"samples": readings("mem.used_pct", dict.fromkeys(SECONDS, 10.0)), "events": event("oom")},
    ),
    "ClockSkew": ("moved", {"steps": steps(1200), "events": event("clock", '{"moved_ns": 5000000000}')}),
    "ObserverOverhead": (
        "recorder",
        {
            "samples": readings("agent.cpu", dict.fromkeys(SECONDS, 0.1)),
            "events": event("end", '{"cost_ns": 20000000000}'),
        },
    ),
    "SharedMemoryTooSmall": (
        "died",
        {
            "samples": readings("shm.used", dict.fromkeys(SECONDS, 1e6)),
            "events": event("exception", '{"message": "a worker is killed by signal: Bus error"}'),
        },
    ),
    "FirstStepSlow": ("", {"steps": steps(1200, first_s=100.0)}),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_what_happened_is_not_over_because_it_is_told_once(name):
    code, given = CASES[name]
    tables = {t: rows if isinstance(rows, Table) else Table.of(t, rows) for t, rows in given.items()}
    assert looked(find(name)(), LOOKS, **tables)[code] == "open"


def test_the_old_name_of_a_stall_tells_it_once_as_the_new_one_does():
    assert find("StalledTrainingRule").tells_once is find("StalledTraining").tells_once is True
