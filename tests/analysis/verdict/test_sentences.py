"""A sentence says no more than the steps show: of stalls, and of parts that no hook saw."""

from __future__ import annotations

import json

import pytest

from holter.analysis.events import framework
from holter.analysis.steps.holders import Holder
from holter.analysis.steps.named_work import NamedWork
from holter.analysis.verdict.gathering import gather
from holter.analysis.verdict.job_facts import VerdictFacts
from holter.analysis.verdict.job_verdict import verdict
from holter.schema.phases import BREAKDOWN
from holter.schema.table import Table


def loop(count: int, stall_ms: int = 0, **parts_ms: int) -> Table:
    """Steps of 10 ms, alike but for the 151st, which stands still for a while."""
    rows, now = [], 0
    for step in range(count):
        extra = stall_ms if step == 151 else 0
        parts = {part: ms * 1_000_000 for part, ms in parts_ms.items()}
        took = (10 + extra) * 1_000_000
        other = took - sum(parts.values())
        zero = dict.fromkeys((*BREAKDOWN, "compile"), 0)
        rows.append({
            "time": now, "duration": took, "rank": 0, "step": step, "mode": "train", "node": "n",
            **zero, **parts, "other": other,
        })  # fmt: skip
        now += took
    return Table.of("steps", rows)


def test_one_stall_is_not_said_of_each_step():
    usual = {"data_loading": 1, "forward": 3, "loss": 1, "backward": 3, "optimizer": 2}
    found = verdict(gather(loop(200, stall_ms=15_000, **usual)))
    said = found.sentence
    assert "each step" not in said
    assert not any("each step" in item.text for item in found.evidence if item.metric == "other")
    little = next(item.text for item in found.evidence if item.metric == "data_loading")
    assert little.startswith("data loading takes")
    assert "% of the loop's time (step 151 took 15 s, 88 % of the loop)" in said
    assert "of each step" in verdict(gather(loop(200, **usual))).sentence


def test_a_part_that_no_hook_saw_is_not_the_loops_own_code():
    usual = {"data_loading": 2, "backward": 3, "optimizer": 1}
    facts = gather(loop(50, **usual))
    assert facts.not_seen == ("forward", "loss")
    found = verdict(facts)
    assert "in forward and loss, which no hook observed, or in the loop's own code" in found.sentence
    assert {"forward (its time counts as other)", "loss (its time counts as other)"} <= set(found.missing)
    assert gather(loop(50, forward=4, **usual)).not_seen == ()
    assert gather(loop(50, forward=4, optimizer=2)).not_seen == ("backward",)
    assert gather(loop(50, forward=4)).not_seen == ()
    assert gather(loop(50, compile=1)).not_seen == ("forward", "loss", "backward", "optimizer")
    assert gather(loop(50, data_loading=4)).not_seen == ()


def held(pct: float, **more: object) -> VerdictFacts:
    """A training of which most is compute, because another thread holds the interpreter."""
    split = {"data_loading": 32.0, "forward": 40.0, "backward": 26.0, "other": 2.0}
    metrics = Holder("thread metrics", "collect (a.py:12)", pct)
    return VerdictFacts(
        breakdown=split, steady_steps=100, step_ms=50.0, mean_step_ms=50.0, ranks=(0,), device="cpu",
        holders=[metrics], **more,
    )  # fmt: skip


def test_a_thread_that_holds_the_interpreter_is_named_and_not_what_it_delays():
    found = verdict(held(74.0))
    assert found.suspect == "own_code", "data loading is a bottleneck only because it waits, too"
    assert found.sentence == (
        "Thread metrics holds the interpreter: collect (a.py:12). The training thread waits for it 74 % of "
        "the loop's time."
    )
    assert found.share_pct == 74.0
    (advice,) = found.advice
    assert advice.text.startswith("Run collect (a.py:12) in a process of its own")
    assert advice.expected_step_ms == pytest.approx(13)


def test_a_smaller_share_of_a_holder_is_named_beside_the_verdict():
    found = verdict(held(20.0))
    assert found.suspect == "data_pipeline"
    (smaller,) = [one for one in found.smaller if one.suspect == "own_code"]
    assert "thread metrics holds the interpreter: collect (a.py:12), for which the training" in smaller.text
    assert verdict(held(5.0)).smaller == []


def test_callbacks_are_named_where_no_sample_names_a_function():
    calls = [
        NamedWork("other", f"callback {name}", pct, "other") for name, pct in (("Norms", 40.0), ("Bar", 3.0))
    ]
    found = verdict(
        VerdictFacts(
            breakdown={"forward": 50.0, "other": 50.0}, steady_steps=100, step_ms=50.0, mean_step_ms=50.0,
            ranks=(0,), device="cpu", named_work=calls,
        )
    )  # fmt: skip
    assert found.suspect == "own_code"
    assert found.sentence.endswith(": callback Norms 40 %.")
    (advice,) = found.advice
    assert (advice.text, advice.why) == (
        "Shorten callback Norms, or call it less often.",
        "it takes 40 % of the loop's time",
    )
    assert advice.expected_step_ms == pytest.approx(30)


@pytest.mark.parametrize(
    ("observed", "expected"),
    [
        (["data_loading", "compute", "eval"], ()),
        (["compute", "eval"], ("data_loading",)),
        (["data_loading", "backward", "optimizer"], ("forward", "loss")),
        (["eval"], ("data_loading", "forward", "loss", "backward", "optimizer")),
    ],
)
def test_a_part_that_the_adapter_does_not_observe_is_not_seen_instead_of_0(observed, expected):
    detail = json.dumps({"name": "somework", "parts": observed})
    events = Table.of("events", [{"time": 1, "rank": 0, "kind": "framework", "name": "", "detail": detail}])
    facts = gather(loop(50, compute=4), events=events)
    assert facts.not_seen == expected
    assert not any(facts.shows(part) for part in expected)
    assert facts.shows("data_loading") == ("data_loading" in observed)


@pytest.mark.parametrize("order", [1, -1])
def test_the_trainer_that_counts_the_steps_is_the_framework(order):
    details = [
        {"name": "pytorch", "version": "2", "device": "cuda"},
        {"name": "keras", "version": "3"},
    ][::order]
    rows = [
        {"time": at, "rank": 0, "kind": "framework", "name": "", "detail": json.dumps(one)}
        for at, one in enumerate(details)
    ]
    rows.append({"time": 2, "rank": 0, "kind": "owner", "name": "", "detail": json.dumps({"owner": "keras"})})
    events = Table.of("events", rows)
    facts, told = gather(loop(50, forward=4), events=events), framework(events)
    assert (facts.framework, facts.device) == ("keras", "cuda")
    assert (told["name"], told["version"], told["device"]) == ("keras", "3", "cuda")
