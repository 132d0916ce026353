"""What the operators of profiled steps add to the verdict on a training on a CPU."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.analysis.verdict.test_profiled_steps import looked, window
from tests.rules.traces import MS

from holter.analysis.host.operator_load import OperatorGroup, OperatorLine, OperatorLoad
from holter.analysis.machine.load import Load
from holter.analysis.steps.own_code import OwnCode
from holter.analysis.verdict.job_facts import VerdictFacts
from holter.analysis.verdict.job_verdict import verdict

LINE = OperatorLine("tiny (a.py:4)", 80.0)
MM = OperatorGroup(name="aten::mm", pct=70.0, shapes="[64, 8] x [8, 8]", line=LINE)
SORT = OperatorGroup(name="aten::sort", pct=70.0, shapes="[4000]", line=LINE)
LOAD = OperatorLoad(
    per_step=40, small_per_step=20, large_ms=9.0, line=LINE, top=MM, double=None,
    items_per_step=0, item_line=None, print_line=None,
)  # fmt: skip


def judged(*, step_ms: float = 10.0, own=(), share: float = 0.0, delay: float = 0.0, **changes):
    """Judge a healthy training on a CPU whose steps had these operators."""
    trace = window()
    trace.operator("aten::mm", 0, 9 * MS)
    profiled = replace(looked(trace), load=replace(LOAD, **changes))
    facts = VerdictFacts(
        steady_steps=100, device="cpu", profiled=profiled, step_ms=step_ms, mean_step_ms=step_ms,
        parts_ms={"forward": step_ms}, own_code=list(own), loads=[Load(node="n0", trainer_delay=delay)],
        breakdown={"forward": 100.0 - share, "other": share},
    )  # fmt: skip
    return verdict(facts)


def test_products_are_evidence_and_no_suspect():
    found = judged()
    assert found.suspect == "healthy"
    (top,) = [one for one in found.evidence if one.metric == "operators.top"]
    said = "aten::mm takes 70 % of steps 40 to 43 with inputs [64, 8] x [8, 8], issued by tiny (a.py:4)"
    assert top.text == said


@pytest.mark.parametrize(
    ("changes", "suspect"),
    [
        ({"small_per_step": 1800, "large_ms": 1.0}, "framework_overhead"),
        ({"small_per_step": 1800, "large_ms": 6.0}, "healthy"),  # large operators take the time
        ({"small_per_step": 200, "large_ms": 1.0}, "healthy"),  # few small operators
        ({"small_per_step": 400, "large_ms": 1.0}, "healthy"),  # the time lies between the operators
        ({"small_per_step": 400, "large_ms": 1.0, "step_ms": 5.0}, "framework_overhead"),
        (
            {"small_per_step": 400, "large_ms": 1.0, "delay": 20.0},
            "framework_overhead",
        ),  # 22.5 us, 18 on a core
        ({"small_per_step": 1800, "large_ms": 1.0, "delay": 79.0}, "contention"),  # 19 % of the step
    ],
)
def test_small_operators_that_fill_the_step_are_dispatch_overhead(changes, suspect):
    assert judged(**changes).suspect == suspect


def test_the_sentence_has_count_time_and_line():
    found = judged(small_per_step=1800.0, large_ms=1.0)
    assert found.sentence == (
        "Dispatch overhead takes 90 % of each step: 1,800 operators of 5 us per step, "
        "most of them issued by tiny (a.py:4)."
    )
    assert found.advice[0].text.startswith("Compute more with each operator in tiny (a.py:4)")


def test_values_that_are_read_are_advised_on_first():
    found = judged(per_step=1800, small_per_step=1800.0, large_ms=1.0, items_per_step=900, item_line=LINE)
    assert found.advice[0].text.startswith("Read values of tensors once per step in tiny (a.py:4)")
    text = "the training reads 900 values from tensors per step, issued by tiny (a.py:4)"
    assert text in [one.text for one in found.evidence]


@pytest.mark.parametrize("waits_in", [None, "sleep"])
def test_operators_are_what_the_loops_own_code_does_unless_it_waits(waits_in):
    own = OwnCode(
        function="tiny", file="a.py", line=4, pct=90.0, calls="", waits_in=waits_in, iterates=False,
        step=3, step_share=0.1, checkpoints=False,
    )  # fmt: skip
    found = judged(small_per_step=1800.0, large_ms=1.0, own=[own], share=90.0)
    assert found.suspect == ("own_code" if waits_in else "framework_overhead")


def test_dispatch_overhead_is_named_beside_contention_too():
    found = judged(small_per_step=1800.0, large_ms=1.0, delay=79.0)
    assert found.suspect == "contention"
    assert "The training waits for a core 79 % of the time" in found.sentence
    assert "Dispatch overhead takes 19 % of each step: 1,800 operators" in found.sentence


def test_the_function_of_the_loop_is_named_rather_than_the_operator_that_it_runs():
    own = OwnCode(
        function="tiny", file="a.py", line=3, pct=90.0, calls="copy.deepcopy", waits_in=None, iterates=False,
        step=3, step_share=0.1, checkpoints=False,
    )  # fmt: skip
    found = judged(top=SORT, own=[own], share=90.0)
    assert found.suspect == "own_code"
    assert any("aten::sort takes 70 %" in one.text for one in found.evidence)
    elsewhere = judged(top=SORT, own=[replace(own, function="other")], share=90.0)
    assert elsewhere.suspect == "model_compute"


def test_float64_and_one_slow_operator_are_compute():
    double = judged(double=OperatorGroup(name="aten::mm", pct=80.0, shapes="[64, 8]", line=LINE))
    assert double.sentence == (
        "Computation in float64 takes 80 % of each step, most of it aten::mm with inputs [64, 8], "
        "issued by tiny (a.py:4)."
    )
    assert double.advice[0].expected_step_ms == pytest.approx(6.0), "half of 80 % of 10 ms"
    slow = judged(top=SORT)
    assert (double.suspect, slow.suspect) == ("model_compute", "model_compute")
    assert slow.sentence.startswith("One operator takes 70 % of each step: aten::sort with inputs [4000]")
    assert judged(top=replace(SORT, pct=40.0)).suspect == "healthy"
    assert judged(top=replace(SORT, pct=52.0), delay=20.0).suspect == "healthy", (
        "it may be the wait for a core"
    )


def test_printed_tensors_are_evidence():
    texts = [one.text for one in judged(print_line=OperatorLine("main (a.py:9)", 12.0)).evidence]
    assert "printing tensors takes 12 % of steps 40 to 43, issued by main (a.py:9)" in texts
