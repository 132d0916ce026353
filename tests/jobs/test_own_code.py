"""Time outside all known parts is named: by function, place, and what the function waits for."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.jobs.starting import TRAININGS, holter

SCRIPT = TRAININGS / "own_code.py"
PLACE = r"\(own_code\.py:\d+\)"
CASES = {
    "stream": ("data_pipeline", rf"Data loading takes .*: generator stream {PLACE}, in time\.sleep"),
    "rows": ("data_pipeline", rf": generator Rows\.__iter__ {PLACE}, mostly in Rows\.convert {PLACE}"),
    "fed": ("data_pipeline", rf"thread loader fills in fill {PLACE}; it spends its time in decode {PLACE}"),
    "stall": ("own_code", rf"Step 61 spends .*, in time\.sleep, called by stall {PLACE}\. The typical"),
    "collect": ("own_code", rf"Garbage collection takes .*: gc\.collect, called by collect {PLACE}"),
    "save": ("checkpointing", rf"Checkpointing takes .* writing, .* time\.sleep, called by save {PLACE}"),
    "convert": ("own_code", rf"subprocess\.run, called by convert {PLACE}"),
    "write_through": ("own_code", rf"os\.fsync, called by write_through {PLACE}"),
    "count_words": ("own_code", rf"takes .*: count_words(\.<genexpr>)? {PLACE}"),
    "wait_for_producer": (
        "data_pipeline",
        rf"wait_for_producer {PLACE} waits for a queue that thread \S+ \(produce\) fills in produce {PLACE}",
    ),
}  # fmt: skip


def judged(case: str, folder: Path) -> tuple[dict[str, Any], float]:
    """Run a case; returns its description, and the planted code's share as the training measures it."""
    store = str(folder / "store")
    stalls = ["--rule", "StepOutlier:stall_s=2"]
    holter(
        "run", "--store", store, "--job", "it", *stalls, "--", sys.executable, str(SCRIPT), case, cwd=folder
    )
    told = json.loads(holter("describe", "it", "--store", store, "--json").stdout)
    assert told["cost"]["faults"] == []
    window = told["verdict"]["evidence"][0]["window"]
    ends = json.loads((folder / "ends.json").read_text())
    (begin, before), (end, after) = ends[window["step_start"] - 1], ends[window["step_end"]]
    return told, 100 * (after - before) / (end - begin)


@pytest.mark.parametrize("case", CASES)
def test_own_code_is_named(tmp_path: Path, case: str) -> None:
    suspect, sentence = CASES[case]
    told, share = judged(case, tmp_path)
    verdict = told["verdict"]
    assert verdict["suspect"] == suspect, verdict
    assert re.search(sentence, verdict["sentence"]), verdict["sentence"]
    if case == "save":  # the advice counts the wait around the writing
        expected = verdict["advice"][0]["expected_step_ms"]
        assert expected == pytest.approx(told["steps"]["mean_ms"] * (1 - share / 100), abs=3)
        (saving,) = [one for one in told["ledger"] if one["item"] == "checkpoint"]
        assert re.fullmatch(rf"waiting in save {PLACE}", saving["children"][0]["text"]), saving
        assert saving["children"][1]["item"] == "writing"
        assert saving["seconds"] > 3 * sum(x["seconds"] for x in told["ledger"] if x["item"] == "stalls")
    if case == "stall":
        (outlier,) = [
            one for rule in told["rules"] if rule["rule"] == "StepOutlier" for one in rule["issues"]
        ]
        assert (outlier["code"], outlier["step_start"]) == ("stall", 61)
        assert re.search(
            rf"own code took .* longer: time\.sleep, called by stall {PLACE}", outlier["summary"]
        )
    # Code that holds the interpreter lock is sampled where it gives up the lock when the cores are busy.
    tolerance = 20 if case == "count_words" else 5
    assert verdict["share_pct"] == pytest.approx(share, abs=tolerance), verdict


def test_short_stretches_between_operators_get_their_share(tmp_path: Path) -> None:
    told, _ = judged("rollout", tmp_path)
    (begin, before), *_, (end, after) = json.loads((tmp_path / "ends.json").read_text())[10:]
    share = 100 * (after - before) / (end - begin)
    found = sum(one["pct"] for one in told["own_code"] if one["function"].startswith("play"))
    # With full cores the operators, at which the training gives up the lock, are seen too often.
    assert share / 4 < found < share + 15, told["own_code"]


def test_a_loop_without_own_code_is_not_accused(tmp_path: Path) -> None:
    told, _ = judged("plain", tmp_path)
    assert told["verdict"]["suspect"] not in ("own_code", "data_pipeline"), told["verdict"]
