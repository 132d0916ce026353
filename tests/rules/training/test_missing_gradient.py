"""Tests of the rule MissingGradient."""

from __future__ import annotations

import numpy as np
import pytest
from tests.rules.training_rows import judged, run, same_in_pieces, tensor

from holter.rules.training.missing_gradient import MissingGradient
from holter.schema.table import Table


def gradients(pattern, *, every=1, ranks=1, prefix=""):
    """Parameter → one letter a saved step: g got one, 0 all zero, n None, f frozen, s skipped."""
    kinds = {
        "g": {"zeros": 3},
        "0": {"zeros": 1000},
        "n": {"state": "unused", "count": 0},
        "f": {"state": "frozen", "count": 0},
        "s": {"state": "skipped", "zeros": 1000},
    }
    rows = [
        tensor(f"gradient/{prefix}{name}", i * every, rank=rank, **kinds[letter])
        for rank in range(ranks)
        for name, letters in pattern.items()
        for i, letter in enumerate(letters)
    ]
    return Table.of("tensors", rows)


def test_parameters_without_a_gradient_are_listed():
    rows = gradients(
        {"fc1.weight": "g" * 40, "head.weight": "n" * 40, "head.bias": "g" * 10 + "0" * 30}, every=100
    )
    (issue,) = same_in_pieces(MissingGradient(), tensors=rows)
    assert issue.severity == "warning"
    assert issue.evidence["parameters"] == ["head.bias", "head.weight"]
    assert (issue.step_start, issue.step_end) == (0, 2900)


@pytest.mark.parametrize(
    "pattern",
    [
        {"a": "g" * 60},
        {"a": "f" * 60, "b": "g" * 60},
        {"a": ("0" * 15 + "g") * 4},
        {"a": "s" * 60},
        {"moe.experts.3.w1.weight": "0" * 60, "b": "g" * 60},
    ],
    ids=["all get one", "frozen", "now and then", "skipped by the scaler", "an expert"],
)
def test_what_is_healthy_without_gradients(pattern):
    assert judged(MissingGradient(), tensors=gradients(pattern)) == []


def test_branches_that_are_dropped_by_chance_are_healthy():
    rng = np.random.default_rng(0)
    pattern = {f"block{i}.weight": "".join(rng.choice(["g", "n"], p=[0.8, 0.2], size=500)) for i in range(20)}
    assert judged(MissingGradient(), tensors=gradients(pattern)) == []


def test_a_gradient_on_any_rank_is_one():
    rows = Table.concat([gradients({"a": "n" * 40}), gradients({"a": "g" * 40}, ranks=2)])
    assert same_in_pieces(MissingGradient(), tensors=rows) == []


def test_the_base_under_adapters_is_info():
    pattern = {
        "model.q.weight": "n" * 30,
        "model.q.lora_A.weight": "g" * 30,
        "model.q.lora_B.weight": "g" * 30,
    }
    (issue,) = judged(MissingGradient(), tensors=gradients(pattern))
    assert (issue.code, issue.severity) == ("base", "info")


def test_without_gradients_it_says_what_to_record():
    fared = run(MissingGradient(), tensors=Table.of("tensors", [tensor("a", 0)]))
    assert (fared.covered, fared.reason) == (0, "no_input")
    assert "--save gradients@100" in fared.lack
