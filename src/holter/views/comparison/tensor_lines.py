"""Turns a comparison of tensors into sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holter.analysis.verdict.evidence import counted, sentence, steps_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holter.views.comparison.tensor_types import TensorChange, TensorDifference

_NAMED = 4
_LOWER = 1e-4, 1e-2
"""Relative differences that the rounding of half precision or TF32 makes."""
_WORDS = {
    "elements": "elements",
    "statistics": "statistics",
    "fingerprint": "fingerprints",
    "number": "recorded numbers",
}
_EQUAL = {**_WORDS, "elements": "saved elements", "statistics": "recorded statistics"}
_OF_FINGERPRINTS = (
    "A fingerprint is taken of up to 64 elements of a parameter or gradient, at some of these steps: "
    "`--save weights@1:raw` saves all elements, and they are compared."
)


def tensor_lines(change: TensorChange) -> Iterator[str]:
    """Describe the result in sentences, the most important first."""
    first, names = change["first"], (change["baseline"], change["job"])
    if change["result"] == "nothing":
        yield f"{names[0]} and {names[1]} hold no tensor, loss or fingerprint of the same step."
    elif change["result"] == "identical":
        yield _identical(change, names)
    elif change["result"] == "round_off":
        yield from _round_off(change)
    elif change["result"] == "different" and first is not None:
        yield from _different(change, first, names)
    else:
        yield from _unclear(change)
    if change["precision"] is not None:
        one = change["precision"]
        before, after = (kind or "unknown" for kind in one["types"])
        where = f"Elements of {one['tensor']} at step {one['step']}"
        yield (
            f"{where} are {before} in {names[0]} and {after} in {names[1]}: "
            "tolerances are those of the coarser type."
        )
    yield from change["unread"]
    if change["result"] != "nothing":
        yield _compared(change)
    if change["result"] == "identical" and "fingerprint" in change["compared"]["by"]:
        yield _OF_FINGERPRINTS
    yield from change["missing"]


def _identical(change: TensorChange, names: tuple[str, str]) -> str:
    compared = change["compared"]
    where = f"{counted(compared['tensors'], 'tensor')} at {counted(compared['steps'], 'step')}"
    kinds = [words for kind, words in _EQUAL.items() if kind in compared["by"]]
    all_ = " and ".join(filter(None, (", ".join(kinds[:-1]), kinds[-1])))
    what = "to the last bit in" if kinds == [_EQUAL["elements"]] else f"in all {all_} of"
    read = " in the files that can be read" * bool(change["unread"])
    return f"{names[0]} and {names[1]} are equal {what} {where}{read}."


def _round_off(change: TensorChange) -> Iterator[str]:
    levels, bits = change["levels"], change["bits"]
    yield "No difference beyond round-off."
    differing = [one for one in levels if one["difference"]]
    if differing:
        last = differing[-1]
        largest = max(differing, key=lambda one: one["difference"])
        text = f"the largest relative difference is {largest['difference']:.2g}, at step {largest['step']}"
        text += f" in {largest['tensor']}"
        if differing[0] is not largest:
            text += f"; at step {differing[0]['step']} it is {differing[0]['difference']:.2g}"
        if last is not largest and last is not differing[0]:
            text += f", at step {last['step']} {last['difference']:.2g}"
        yield sentence(text)
    if bits is not None:
        yield f"The first bits differ at step {bits['step']}, in {bits['tensor']}."


def _different(change: TensorChange, first: TensorDifference, names: tuple[str, str]) -> Iterator[str]:
    origin = change["origin"]
    cause = origin or first
    yield f"The first difference beyond round-off is at step {cause['step']}: {_named(cause)}."
    if origin is not None:
        yield sentence(
            "fingerprints of its elements differ by an unknown amount; "
            f"then {first['tensor']} differs: {_size(first)}"
        )
    else:
        yield sentence(_size(first))
    yield sentence(_reason(change, cause, names))
    lower = _LOWER[0] < (first["difference"] or 0.0) < _LOWER[1]
    if origin is None and lower and change["weights"] in ("equal", "within") and first["stage"] == "forward":
        yield "A lower precision inside an operation (TF32, float16, bfloat16) makes such a difference too."
    if change["beyond_count"]:
        some = ", ".join(one["tensor"] for one in change["beyond"][:_NAMED])
        more = change["beyond_count"] - min(_NAMED, len(change["beyond"]))
        yield sentence(f"these differ later in this step: {some}" + (f" and {more} more" if more else ""))


def _unclear(change: TensorChange) -> Iterator[str]:
    first, bits, levels = change["first"], change["bits"], change["levels"]
    if first is None:
        if bits is not None:
            yield (
                f"Fingerprints differ first at step {bits['step']}, in {bits['tensor']}; "
                "no recorded number shows the size of the difference."
            )
        return
    yield f"Round-off may explain the differences: at step {first['step']} {_named(first)}."
    yield sentence(_size(first))
    before = [one for one in levels if one["step"] < first["step"]]
    if before:
        last = before[-1]
        text = f"at step {last['step']} the largest difference is {last['difference']:.2g}"
        text += ", and steps in between were not compared"
    else:
        text = f"steps before {first['step']} were not compared"
    yield sentence(f"{text}: save every step, or compare with a perturbed run (`--perturbed`)")


def _named(one: TensorDifference) -> str:
    """Name a tensor with its module."""
    module = f"module {one['module']}" if one["module"] else ""
    if one["stage"] == "data":
        text = "the input batch"
    elif one["kind"] in ("input", "output"):
        text = f"the {one['kind']} of {module}"
    elif one["kind"] == "parameter":
        text = "the parameter"
    elif one["kind"] == "gradient":
        text = "the gradient"
    elif one["kind"] == "optimizer":
        text = "the state of the optimizer"
    else:
        text = {"loss": "the loss", "buffer": "the buffer"}.get(one["stage"], "")
    ranks = f", rank {one['rank']}" if one["rank"] > 0 else ""
    mode = f", in mode {one['mode']}" if one["mode"] not in ("train", "global") else ""
    return f"{text} ({one['tensor']}{mode}{ranks})" if text else f"{one['tensor']}{mode}{ranks}"


def _size(one: TensorDifference) -> str:
    if one["why"] == "shape":
        return "its number of elements differs"
    if one["why"] == "nonfinite":
        return "NaN or infinite elements are in other places, or in one job only"
    if one["difference"] is None:
        return "the elements differ, by an unknown amount"
    text = f"relative difference {one['difference']:.2g}"
    if one["tolerance"] is not None:
        text += f", tolerance {one['tolerance']:.2g}"
    if one["by"] == "number":
        text += f" ({one['before']:.7g} before, {one['after']:.7g} after)"
    return text


def _reason(change: TensorChange, one: TensorDifference, names: tuple[str, str]) -> str:
    """Say what the place of the first difference means."""
    stage, within = one["stage"], change["within"]
    if stage == "state":
        return _of_state(change, one)
    if stage == "data":
        return "other data, another order of the data, or another preprocessing"
    if one["role"] and one["role_after"] and one["role"] != one["role_after"]:
        return f"the module is another one: {one['role']} in {names[0]}, {one['role_after']} in {names[1]}"
    if stage == "forward" and one["kind"] == "input":
        last = change["last_equal"]
        before = f"before it, {last} agrees" if last else "no earlier output was compared"
        return f"{before}: the operation in front of the module differs"
    if stage == "forward":
        return _of_module(change)
    if stage == "buffer":
        agrees = "the forward pass agrees: " if "forward" in within else ""
        return f"{agrees}the module computes its buffer in another way"
    if stage == "loss":
        if "forward" in within:
            return "the forward pass agrees: the loss function differs, or its labels do"
        equal = [word for key, word in (("state", "weights"), ("data", "batch")) if key in change["agree"]]
        agrees = f"{' and '.join(equal)} agree: " if equal else ""
        return f"{agrees}the forward pass or the loss computes something else"
    equal = [word for key, word in (("forward", "the forward pass"), ("loss", "the loss")) if key in within]
    agrees = f"{' and '.join(equal)} agree{'s' * (len(equal) == 1)}: " if equal else ""
    if stage == "gradient":
        return f"{agrees}the backward pass computes something else"
    if one["tensor"] == "lr":
        return "the learning rate, or its schedule, differs"
    return f"{'the gradients agree: ' * ('gradient' in within)}the update differs"


def _of_state(change: TensorChange, one: TensorDifference) -> str:
    """Say what weights, or the state of the optimizer, that differ at the begin of a step mean."""
    if one["step"] == 0:
        return "the weights differ before the first update: another initialization, or another checkpoint"
    agree = "the gradients of the step before agree: " * ("gradient" in change["previous"])
    if one["kind"] == "optimizer":
        return f"{agree}the optimizer or its settings differ"
    return f"{agree}the update differs (optimizer, its settings, clipping)"


def _of_module(change: TensorChange) -> str:
    """Say what is known of the inputs and weights of the module that differs."""
    words = {"equal": "are equal", "within": "agree within round-off"}
    inputs, weights = words.get(change["inputs"]), words.get(change["weights"])
    if inputs is None and weights is None:
        return "its inputs and weights were not compared"
    if inputs == weights:
        known = f"its inputs and weights {inputs}"
    else:
        parts = (("inputs", inputs), ("weights", weights))
        known = " and ".join(f"its {what} {state}" for what, state in parts if state)
    return f"{known}: the module computes something else"


def _compared(change: TensorChange) -> str:
    compared = change["compared"]
    first, last = compared["first_step"], compared["last_step"]
    steps = counted(compared["steps"], "step")
    if first is not None and last is not None:
        steps += f" ({steps_text(first, last).removeprefix('steps ').removeprefix('step ')})"
    by = ", ".join(f"{count} by {_WORDS.get(kind, kind)}" for kind, count in compared["by"].items())
    later = compared["later_steps"]
    until = f"; {counted(later, 'later step')} left out" if later else ""
    text = f"Compared: {counted(compared['tensors'], 'tensor')} at {steps}: {by}{until}."
    if change["perturbed"]:
        text += f" {change['perturbed']} shows the round-off."
    return text
