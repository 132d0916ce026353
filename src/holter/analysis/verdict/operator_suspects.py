"""Tests the suspects that operators of profiled steps show in a training on a CPU, and advises on them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holter.analysis.verdict.evidence import Evidence, pct, us
from holter.analysis.verdict.result import Advice, SuspectResult

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from holter.analysis.host.operator_load import OperatorLine, OperatorLoad
    from holter.analysis.verdict.job_facts import VerdictFacts

DISPATCH_SHARE = 50.0
MANY_OPERATORS = 300
"""Small operators in a step; fewer do not make it slow."""
DISPATCH_US = 20.0
"""A step that runs longer on a core for each small operator spends its time elsewhere."""
DOUBLE_SHARE = 30.0
SLOW_OPERATOR = 50.0
MOST = 50.0
MANY_ITEMS = 20
PRINT_SHARE = 5.0
_HEAVY = ("mm", "conv", "attention", "linear", "lstm", "gru", "rnn", "matmul", "fft", "cdist")
"""Parts of the names of operators that a model's work consists of."""
_NOT_DISPATCH = ("data_loading", "communication", "checkpoint")


def operators_of(facts: VerdictFacts) -> OperatorLoad | None:
    """Return the operators of the profiled steps of a training on a CPU."""
    profiled = facts.profiled
    return (
        profiled.load if profiled is not None and profiled.device is None and facts.device == "cpu" else None
    )


def framework_overhead(facts: VerdictFacts, load: OperatorLoad) -> SuspectResult:
    """Small operators fill the step: issuing them takes the time, not their work."""
    step, count = facts.step_ms or 0.0, load.small_per_step
    waits = sum(facts.parts_ms.get(part, 0.0) for part in _NOT_DISPATCH)
    waits += sum(one.pct for one in facts.own_code if one.waits_in) / 100 * (facts.mean_step_ms or 0.0)
    left = max(step - waits - load.large_ms, 0.0)
    waiting = max((one.trainer_delay or 0.0 for one in facts.loads), default=0.0)
    on_core = left * (1 - waiting / 100)  # the wait for a core is contention
    share = 100.0 * on_core / step if step else 0.0
    filled = 100.0 * left / step if step else 0.0  # beside contention, too
    if count < MANY_OPERATORS:
        return SuspectResult(because=f"a step has only {count:,.0f} small operators")
    each = us(1000.0 * on_core / count)
    if filled < DISPATCH_SHARE:
        because = f"large operators and waits take {pct(100 - filled)} of each step"
        return SuspectResult(because=because)
    if 1000.0 * on_core / count > DISPATCH_US:
        because = f"a step has {count:,.0f} small operators, and runs {each} for each of them"
        return SuspectResult(because=because)
    said = f"Dispatch overhead takes {pct(share)} of each step: {count:,.0f} operators of {each} per step"
    found = [
        _seen(
            facts, f"{count:,.0f} operators of less than 50 us per step", "operators", count, MANY_OPERATORS
        )
    ]
    if load.line:
        said += f", {'most of them issued' if load.line.pct >= MOST else 'most often'} by {load.line.place}"
        text = f"{load.line.place} runs in {pct(load.line.pct)} of the samples outside the backward pass"
        found.append(_seen(facts, text, "operators.line", load.line.pct, where=load.line.place))
    return SuspectResult(guilty=True, sentence=f"{said}.", share=share, evidence=found)


def model_compute(facts: VerdictFacts, load: OperatorLoad) -> SuspectResult:
    """The model computes in float64, or one operator other than its usual work fills the step."""
    double, top = load.double, load.top
    if double is not None and double.pct >= DOUBLE_SHARE:
        said = f"Computation in float64 takes {pct(double.pct)} of each step, most of it {double.name}"
        said += f"{_inputs(double.shapes)}{_issued(double.line)}"
        text = f"operators on float64 tensors take {pct(double.pct)} of {_steps(facts)}"
        found = _seen(facts, text, "operators.float64", double.pct, DOUBLE_SHARE)
        return SuspectResult(guilty=True, sentence=f"{said}.", share=double.pct, evidence=[found])
    # In the few profiled steps, the wait for a core may fall into any one operator.
    waiting = max((one.trainer_delay or 0.0 for one in facts.loads), default=0.0)
    least = 100.0 * SLOW_OPERATOR / max(100.0 - waiting, 1.0)
    if top is not None and top.pct >= least and not any(word in top.name for word in _HEAVY):
        said = f"One operator takes {pct(top.pct)} of each step: {top.name}"
        said += f"{_inputs(top.shapes)}{_issued(top.line)}"
        text = f"{top.name} takes {pct(top.pct)} of {_steps(facts)}"
        found = _seen(facts, text, "operators.top", top.pct, SLOW_OPERATOR)
        return SuspectResult(guilty=True, sentence=f"{said}.", share=top.pct, evidence=[found])
    return SuspectResult()


def tested(facts: VerdictFacts) -> dict[str, SuspectResult]:
    """Return the suspects that the operators make guilty, and why dispatch overhead is not."""
    load = operators_of(facts)
    if load is None:
        return {}
    overhead, compute = framework_overhead(facts, load), model_compute(facts, load)
    if overhead.guilty:
        return {"framework_overhead": overhead}
    return {"framework_overhead": overhead, **({"model_compute": compute} if compute.guilty else {})}


def explains_own_code(
    guilty: Mapping[str, SuspectResult], found: Mapping[str, SuspectResult], facts: VerdictFacts
) -> bool:
    """Whether guilty operators are what the loop's own code does: then these are one problem, not two."""
    named = [one for one in facts.own_code if not one.iterates]
    return (
        "own_code" in guilty
        and any(result.guilty for result in found.values())
        and not (named and named[0].waits_in)
    )


def belongs_to_own_code(
    guilty: Mapping[str, SuspectResult], found: Mapping[str, SuspectResult], facts: VerdictFacts
) -> bool:
    """Whether the operator that fills the step is what the largest function of the loop's own code runs."""
    load = operators_of(facts)
    if load is None or not {"own_code", "model_compute"} <= guilty.keys() or "model_compute" not in found:
        return False
    double, top = load.double, load.top
    if (double is not None and double.pct >= DOUBLE_SHARE) or top is None or top.line is None:
        return False
    own = facts.own_code[0] if facts.own_code else None
    return own is not None and top.line.place.startswith(f"{own.function} ({own.file}:")


def evidence(facts: VerdictFacts) -> list[Evidence]:
    """Return what the operators add to any verdict: the longest, values that are read, printed tensors."""
    load, found = operators_of(facts), []
    if load is None:
        return []
    if (top := load.top) is not None and top.pct >= 1 and (top.shapes or top.line):
        text = f"{top.name} takes {pct(top.pct)} of {_steps(facts)}{_inputs(top.shapes)}{_issued(top.line)}"
        found.append(_seen(facts, text, "operators.top", top.pct))
    if load.items_per_step >= MANY_ITEMS:
        count = f"{load.items_per_step:,.0f} values from tensors per step"
        text = f"the training reads {count}{_issued(load.item_line)}"
        found.append(_seen(facts, text, "operators.item", load.items_per_step, MANY_ITEMS))
    if load.print_line is not None and load.print_line.pct >= PRINT_SHARE:
        text = (
            f"printing tensors takes {pct(load.print_line.pct)} of {_steps(facts)}{_issued(load.print_line)}"
        )
        found.append(_seen(facts, text, "operators.print", load.print_line.pct, PRINT_SHARE))
    return found


def advice(name: str, facts: VerdictFacts) -> list[Advice]:
    """Advise on a suspect that the operators make guilty."""
    load = operators_of(facts)
    return [] if load is None else _ADVICE[name](facts, load)


def _fewer_operators(_: VerdictFacts, load: OperatorLoad) -> list[Advice]:
    where = f" in {load.line.place}" if load.line else ""
    why = f"each of {load.small_per_step:,.0f} operators per step costs more to issue than to compute"
    found = [
        Advice(
            f"Compute more with each operator{where}: one operation on a larger tensor, not a loop.",
            None,
            why,
        ),
        Advice(
            "Use torch.compile, an optimizer with fused=True or foreach=True, or a larger batch.", None, why
        ),
    ]
    # Each value that is read takes two operators: one to choose it, one to read it.
    return (
        [*_fewer_items(load), *found]
        if 3 * load.items_per_step > load.per_step
        else [*found, *_fewer_items(load)]
    )


def _less_compute(facts: VerdictFacts, load: OperatorLoad) -> list[Advice]:
    double, top = load.double, load.top
    if double is not None and double.pct >= DOUBLE_SHARE:
        step = facts.step_ms
        expected = None if step is None else step * (1 - double.pct / 200)
        why = f"operators on float64 tensors take {pct(double.pct)} of a step; float32 takes half of that"
        where = f" in {double.line.place}" if double.line else ""
        return [Advice(f"Compute in float32{where}, where its precision is enough.", expected, why)]
    if top is None:
        return []
    where = f" in {top.line.place}" if top.line else ""
    return [
        Advice(f"Do without {top.name}{where}, or on less data.", None, f"it takes {pct(top.pct)} of a step")
    ]


def _fewer_items(load: OperatorLoad) -> list[Advice]:
    if load.items_per_step < MANY_ITEMS:
        return []
    where = f" in {load.item_line.place}" if load.item_line else ""
    text = f"Read values of tensors once per step{where}: collect them in a tensor, and use .tolist()."
    return [Advice(text, None, f"the training reads {load.items_per_step:,.0f} values per step")]


_ADVICE: dict[str, Callable[[VerdictFacts, OperatorLoad], list[Advice]]] = {
    "framework_overhead": _fewer_operators,
    "model_compute": _less_compute,
}


def _seen(
    facts: VerdictFacts,
    text: str,
    metric: str,
    value: float,
    threshold: float | None = None,
    *,
    where: str | None = None,
) -> Evidence:
    window = facts.profiled.window if facts.profiled else None
    return Evidence(text, metric, value, threshold, where, window)


def _steps(facts: VerdictFacts) -> str:
    return facts.profiled.steps if facts.profiled else "the profiled steps"


def _inputs(shapes: str) -> str:
    return f" with inputs {shapes}" if shapes else ""


def _issued(line: OperatorLine | None) -> str:
    return f", issued by {line.place}" if line else ""
