"""What a step consists of is said from its spans."""

from __future__ import annotations

from pathlib import Path

from holter.schema.phases import NEXT_BATCH
from holter.schema.table import Table
from holter.store import job
from holter.store.trial import Trial
from holter.store.writer import Writer
from holter.views.document.step_unit import step_unit


def _unit(where: Path, loaders: list[int], batches: int) -> str | None:
    """Return the unit of a job whose steps have these loaders, with as many batches each."""
    folder = job.create(str(where), "it", command=["true"], interval_ms=500, rules=[], now_ns=1)
    rows = [
        (step, phase, name, value)
        for step, loader in enumerate(loaders)
        for phase, name, value in (
            *[("data_loading", NEXT_BATCH, float(loader))] * batches,
            ("backward", "backward", float("nan")),
            ("optimizer", "AdamW", float("nan")),
        )
    ]
    every = len(rows)
    step, phase, name, value = (list(column) for column in zip(*rows, strict=True))
    constant = {"duration": 10, "rank": 0, "worker": -1, "thread": 0, "mode": "train"}
    writer = Writer(folder, "node0")
    writer.append(
        "spans",
        {
            "time": [1000 * (at + 1) for at in range(every)],
            **{key: [one] * every for key, one in constant.items()},
            "step": step,
            "phase": phase,
            "name": name,
            "value": value,
        },
    )
    writer.close()
    steps = Table.of("steps", [{"rank": 0, "step": at, "mode": "train"} for at in range(len(loaders))])
    return step_unit(Trial(folder), steps, Table.empty("events"))


def test_batches_of_a_step_count_where_each_epoch_has_a_loader_of_its_own(tmp_path: Path) -> None:
    assert _unit(tmp_path / "one", [0] * 12, 4) == "one optimizer step, from 4 batches"
    assert _unit(tmp_path / "each", [0] * 4 + [1] * 4 + [2] * 4, 4) == "one optimizer step, from 4 batches"
    assert _unit(tmp_path / "single", [0] * 6 + [1] * 6, 1) == "one optimizer step"
