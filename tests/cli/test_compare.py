"""`holter compare` and `holter check`: changes between jobs as text, JSON and exit code."""

from __future__ import annotations

import json
import re
import shutil

import numpy as np
import pytest
from tests.generated.story import story

import holter as library
from holter.schema.phases import ITERATOR_START, NEXT_BATCH
from holter.store.writer import Writer

from .conftest import job, told

PRICE = 32.77


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    store = tmp_path_factory.mktemp("made") / "store"
    for name in ("before", "after"):
        told(name, str(store), cores=2, ranks=2, steps=200, samples=200)
    return store


@pytest.fixture
def pair(made, own_folder):
    """The worked case, before its fix and after."""
    shutil.copytree(made, own_folder / "holter-jobs")


def test_the_table_of_the_worked_case(holter, pair):
    answer = holter(
        "compare", "before", "after", "--price", str(PRICE), "--epochs", "30", "--epoch-steps", "21000"
    )
    assert answer.code == 0
    lines = {line[:18].strip(): line[18:].split() for line in answer.out.splitlines()}
    assert lines["verdict"] == ["data", "pipeline", "no", "bottleneck"]
    before, _, share, _, after, _, less, _ = lines["data loading"]
    assert [float(share), float(less)] == pytest.approx([60, 9.2], abs=1)
    assert [float(before), float(after)] == pytest.approx([600, 40.5], abs=5)
    assert "A step takes 55.9 % less time" in answer.out
    assert max(map(len, answer.out.splitlines())) <= 100


def test_epochs_of_the_worked_case_are_worth_what_it_says_to_the_digit(holter, own_folder):
    """5.9 h an epoch before and 2.6 h after, 30 epochs at 32.77 an hour: 177 h, 78 h, 99 h, $3,244.23."""
    for name, hours in (("before", 5.9), ("after", 2.6)):
        folder, made = told(name, cores=2, ranks=1, steps=60, samples=60)
        first = made.spans.where(made.spans["phase"] == "data_loading").where(slice(0, 1))
        begin, epoch = int(first["time"][0]), round(hours * 3600e9)
        rows = {column: np.repeat(first[column], 3) for column in first.names}
        rows["name"] = np.array([ITERATOR_START, ITERATOR_START, NEXT_BATCH], object)
        rows["time"] = np.array([begin - epoch, begin, begin])
        rows |= {"duration": np.zeros(3, np.int64), "value": np.zeros(3)}
        writer = Writer(folder, first["node"][0])
        writer.append("spans", rows)
        writer.close()
    words = ["compare", "before", "after", "--price", str(PRICE), "--epochs", "30"]
    out = holter(*words).out
    assert re.search(r"^epoch +5 h 54 min +2 h 36 min$", out, re.MULTILINE)
    told_ = "30 epochs: 177 h before, 78 h after, 99 h saved, 3,244.23 at 32.77 an hour."
    assert told_ in " ".join(out.split())
    (change,) = json.loads(holter(*words, "--json").out)["changes"]
    assert round(change["saving"]["money_saved"], 2) == 3244.23
    assert change["saving"]["speedup"] == pytest.approx(5.9 / 2.6)
    assert f"- {told_}" in holter(*words, "--format", "md").out


def test_json_says_the_same_and_what_a_whole_run_saves(holter, pair):
    words = ["compare", "before", "after", "--price", str(PRICE), "--epochs", "30", "--epoch-steps", "21000"]
    document = json.loads(holter(*words, "--json").out)
    before, after = document["jobs"]
    (change,) = document["changes"]
    assert document["baseline"] == "before"
    assert before["suspect"] == "data_pipeline"
    assert before["gpu_pct"] == pytest.approx(40, abs=2)
    assert after["gpu_pct"] == pytest.approx(88, abs=2)
    assert change["step"]["ratio_low"] < change["step"]["ratio"] < change["step"]["ratio_high"] < 0.5
    assert change["parts"][0]["part"] == "data_loading"
    assert change["parts"][0]["difference_ms"] == pytest.approx(-560, abs=5)
    saved = change["saving"]
    assert saved["hours_before"] == pytest.approx(30 * 21000 * before["steps"]["mean_ms"] / 3.6e6)
    assert saved["money_saved"] == pytest.approx(saved["hours_saved"] * PRICE)
    assert {"what": "workers", "before": 4, "after": 16} in change["changed"]
    assert before["cost"] == pytest.approx(before["duration_h"] * PRICE)
    loop = before["phases"]["training_loop"] / 3600 * PRICE
    assert sum(before["cost_of_parts"].values()) == pytest.approx(loop)


def test_from_python(pair):
    document = library.open("holter-jobs/before").compare("holter-jobs/after", price=PRICE)
    assert document["changes"][0]["saving"]["of"] == "steps"
    assert document["changes"][0]["saving"]["count"] == 200
    with pytest.raises(ValueError, match="two jobs"):
        library.open("holter-jobs/before").compare()


def test_what_was_recorded_at_the_start_is_compared(holter):
    job("one", recorded={"packages": {"torch": "2.5", "numpy": "2"}, "settings": {"OMP_NUM_THREADS": "1"}})
    job("two", recorded={"packages": {"torch": "2.6", "numpy": "2"}})
    changed = json.loads(holter("compare", "one", "two", "--json").out)["changes"][0]["changed"]
    assert changed == [
        {"what": "packages torch", "before": "2.5", "after": "2.6"},
        {"what": "settings OMP_NUM_THREADS", "before": "1", "after": None},
    ]


def test_jobs_without_steps_are_compared_in_what_they_have(holter):
    job("one"), job("two")
    answer = holter("compare", "one", "two")
    assert answer.code == 0
    assert "the baseline has 0 steady steps; 20 are needed" in answer.out.replace("\n", " ")
    assert holter("check", "one", "two").code == 3


def test_many_jobs_side_by_side_and_how_to_record_what_is_missing(holter, pair):
    job("empty")
    machine = job("machine")
    writer = Writer(machine, "node-0")
    writer.append("samples", story("before", ranks=1, cores=2, steps=20, samples=400).samples.columns)
    writer.close()
    answer = holter("compare", "before", "after", "empty", "machine")
    lines = answer.out.splitlines()
    assert lines[0].split() == ["before", "after", "empty", "machine"]
    assert sum(line.endswith(" against before") for line in lines) == 3
    told = " ".join(answer.out.split())
    assert told.count("20 are needed to compare step times: ") == 2
    assert "changed: hardware: 2 CPUs 1.24 TB + 2 x A100-SXM4-40GB → unknown" in told
    verdict = json.loads(holter("describe", "machine", "--json").out)["verdict"]
    assert "steps" in verdict["missing"]
    assert "CPU samples" not in verdict["missing"]
    assert "holter.step()" in verdict["advice"][0]["text"]


def test_markdown_is_the_table_and_what_changed(holter, pair):
    job("odd", recorded={"settings": {"NCCL_ALGO": "<b>a|b</b>\n# *c*"}})
    out = holter("compare", "before", "after", "odd", "--format", "md").out
    lines = out.splitlines()
    assert lines[:2] == ["|  | before | after | odd |", "|---|---:|---:|---:|"]
    rows = lines[2 : lines.index("")]
    assert all(len(re.split(r"(?<!\\)\|", row)) == 6 for row in rows)
    (loading,) = [row for row in rows if row.startswith("| data loading |")]
    assert re.fullmatch(
        r"\| data loading \| 6\d\d ms, 60.0 % \| 4\d(\.\d)? ms, 9.2 % \| unknown \|", loading
    ), loading
    assert "**after** against before" in lines
    assert any(line.startswith("- A step takes 55.9 % less time: ") for line in lines)
    assert r"\<b\>a\|b\</b\> \# \*c\*" in out
    holter("compare", "before", "after", "--format", "md", "--json").refused(64, "not both")


@pytest.mark.parametrize(("command", "code"), [("compare", 64), ("check", 2)])
def test_a_perturbed_job_is_only_for_a_comparison_of_tensors(holter, pair, command, code):
    holter(command, "before", "after", "--perturbed", "before").refused(code, "give both")


def test_check_passes_fails_and_cannot_tell(holter, pair):
    assert holter("check", "before", "after").code == 0
    slower = holter("check", "after", "before", "--json")
    assert slower.code == 1
    assert json.loads(slower.out)["result"] == "regression"
    assert holter("check", "after", "before", "--max-slowdown", "150%").code == 0
    assert holter("check", "before", "before").code == 0


def test_check_writes_the_summary_of_a_workflow(holter, pair, tmp_path, monkeypatch):
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    holter("check", "after", "before")
    holter("check", "before", "after")
    text = (tmp_path / "summary.md").read_text()
    assert text.count("### ") == 2
    assert "| data_loading |" in text
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "no" / "folder"))
    answer = holter("check", "before", "after")
    assert answer.code == 0
    assert "cannot be written" in answer.err


@pytest.mark.parametrize(
    ("words", "code", "part"),
    [
        (["compare", "before"], 64, "two jobs"),
        (["compare", "before", "afetr"], 4, "after"),
        (["compare", "before", "after", "--price", "-1"], 64, "--price -1 is not a price"),
        (["compare", "before", "after", "--price", "much"], 64, "--price much"),
        (["compare", "before", "after", "--epoch-steps", "0"], 64, "at least 1"),
        (["check", "before", "after", "--max-slowdown", "5"], 2, "5%"),
        (["check", "before"], 2, "JOB"),
        (["check", "before", "nothing"], 4, "'nothing'"),
    ],
)
def test_bad_input_is_one_line(holter, pair, words, code, part):
    holter(*words).refused(code, part)


def test_a_disturbed_job_is_code_6_and_its_comparison_says_why(holter, pair, own_folder, monkeypatch):
    """Job `before` is the slower one; a quota throttled it."""
    opened = library.open("holter-jobs/before")
    seen = opened.samples.table
    rows = seen.where(seen["metric"] == "cpu.util")
    columns = {column: rows[column] for column in rows.names if column != "node"}
    throttled = {
        "metric": np.full(rows.rows, "cgroup.throttled_pct", object),
        "value": np.full(rows.rows, 40.0),
    }
    writer = Writer(opened.folder, rows["node"][0])
    writer.append("samples", columns | throttled)
    writer.close()
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(own_folder / "summary.md"))
    answer = holter("check", "after", "before", "--json")
    assert answer.code == 6
    document = json.loads(answer.out)
    assert (document["result"], document["disturbance"]["after"]) == ("disturbed", ["quota"])
    assert document["conditions"]["after"]["throttled_pct"] == 40
    text = (own_folder / "summary.md").read_text()
    assert "step time: disturbed" in text
    assert "| CPU time for a step |" in text
    why = "the CPU quota stopped before in 40 % of the scheduling periods (after: unknown)"
    assert why in text
    assert f"disturbed: {why}" in holter("check", "after", "before").out
    compared = " ".join(holter("compare", "after", "before").out.split())
    assert f"{why}; CPU time" in compared
    assert "not comparable by wall time. By wall time, a step takes" in compared
    assert "more time:" not in compared
    assert holter("check", "before", "after").code == 6  # without the throttling, it may have been faster
    assert "more time: " not in holter("compare", "after", "before", "--format", "md").out
