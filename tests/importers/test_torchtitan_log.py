"""torchtitan's structured log: one that torchtitan wrote, and what can be wrong with such a file.

The log is of a debug model whose data ran out in step 8; the lines of steps 3 to 6 are left out.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from holter.importers import UnreadableError
from holter.importers.files import FileToImport, files
from holter.importers.report import Report
from holter.views.document.description import describe

LOG = Path(__file__).parent / "data/torchtitan.jsonl"


def written(tmp_path: Path, lines: list[object], name: str = "rank.jsonl") -> Path:
    path = tmp_path / name
    path.write_text("".join(f"{one if isinstance(one, str) else json.dumps(one)}\n" for one in lines))
    return path


def event(name: str, time_us: int, **more: object) -> dict[str, object]:
    return {"log_type": "event", "log_type_name": name, "time_us": time_us, "source": "training", **more}


def test_steps_phases_and_numbers_are_those_of_the_log(imported):
    tables, report = imported(LOG)
    lines = [json.loads(line) for line in LOG.read_text().splitlines()]
    took = {(one["log_type_name"], one.get("step")): one["value"] for one in lines if "_end" in str(one)}
    spans = tables.table("spans")
    steps = spans.where(spans["phase"] == "step").sorted("time")
    assert steps["step"].tolist() == [1, 2, 7], "the data ran out in step 8"
    for row in steps.to_rows():
        assert row["duration"] / 1e6 == pytest.approx(took["step_end", row["step"]], abs=1e-5)
    for name, phase in {
        "fetching_batch": "data_loading",
        "fwd_bwd": "compute",
        "optim": "optimizer",
        "post_dataloading_process": "annotation",
    }.items():
        found = spans.where((spans["name"] == name) & (spans["step"] > 0)).sorted("time")
        assert set(found["phase"].tolist()) == {phase}
        assert found["step"].tolist() == [1, 2, 7]
        expected = [took[f"{name}_end", step] for step in (1, 2, 7)]
        assert (found["duration"] / 1e6).tolist() == pytest.approx(expected, abs=1e-5)
    scalars = tables.table("scalars").sorted("time")
    assert scalars.where(scalars["name"] == "local_valid_tokens")["value"].tolist() == [128, 128, 128]
    assert set(spans["name"].tolist()).isdisjoint({"gc_collect", "training"})
    (source,) = report.facts.values()
    assert source == {"source": "training"}
    assert set(report.ranks.values()) == {0}
    assert not any(report.skipped.values())
    assert not any(report.notes.values())
    told = describe(tables)
    assert told["steps"]["unit"] == "one optimizer step of torchtitan"
    seen = {part for part, share in told["breakdown"].items() if share is not None}
    assert seen == {"data_loading", "compute", "optimizer", "checkpoint", "eval", "other"}
    assert told["breakdown"]["compute"] > 50


def test_ranks_are_those_of_the_log(imported, tmp_path):
    for rank in (3, 1):
        lines = [json.loads(line) | {"rank": rank} for line in LOG.read_text().splitlines()]
        written(tmp_path, lines, f"training.global_rank_{rank}.jsonl")
    tables, report = imported(
        tmp_path / "training.global_rank_3.jsonl", tmp_path / "training.global_rank_1.jsonl"
    )
    assert sorted(report.ranks.values()) == [1, 3]
    assert set(tables.table("spans")["rank"].tolist()) == {1, 3}


def test_what_is_wrong_costs_only_itself(imported, tmp_path):
    path = written(
        tmp_path,
        [
            event("step_start", 1_000_000, step=1, rank=0),
            event("optim_start", 1_100_000, step=1),
            "no line of JSON",
            event("optim_end", 1_200_000, step=1),  # without its duration
            event("fwd_bwd_end", 1_250_000, step=1, value=3.0),
            {"log_type_name": 5, "time_us": "later"},
            event("checkpoint_save_start", 1_300_000, step=1),
            event("checkpoint_save_end", 1_400_000, step=1, value=90.0, step_tags=["checkpoint_save"]),
            event("step_end", 1_500_000, step=1, value=500.0),
            event("step_start", 10**17, step=2),
            event("step_start", 1_600_000, step=2),
        ],
    )
    tables, report = imported(path)
    spans = tables.table("spans").sorted("time")
    found = [(row["phase"], row["duration"]) for row in spans.to_rows()]
    assert found == [("step", 500_000_000), ("optimizer", 100_000_000), ("checkpoint", 90_000_000)]
    (skipped,) = report.skipped.values()
    assert skipped == {"a line without an event": 3, "the end of a phase that did not begin": 1}
    assert report.notes[str(path)] == ["1 phases do not end: the log is of a process that was stopped"]


def test_other_lines_of_json_are_no_log(imported, tmp_path):
    path = written(tmp_path, [{"step": 1, "loss": 2.0}])
    with pytest.raises(UnreadableError, match="no list of trace events"):
        imported(path)
    found: list[FileToImport] = list(files([tmp_path, LOG], Report(), tmp_path / "room"))
    assert [one.path for one in found if one.path.suffix == ".jsonl"] == [LOG]
