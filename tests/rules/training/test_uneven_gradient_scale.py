"""UnevenGradientScale: the same signal in layers of any depth, and what is too little of it."""

from __future__ import annotations

import numpy as np
import pytest
from tests.rules.training_rows import judged, run, same_in_pieces, tensor

from holter.rules.training.uneven_gradient_scale import UnevenGradientScale
from holter.schema.table import Table


def layers(scale, *, n=24, steps=8, every=100, name="layers.{}.fc.weight", seed=0):
    """A network of n layers; `scale` tells the gradient of layer i at saved step k, its weights are 0.02."""
    rng = np.random.default_rng(seed)
    rows = []
    for k in range(steps):
        for i in range(n):
            noise = 10 ** (0.2 * rng.standard_normal())
            rows.append(tensor(f"gradient/{name.format(i)}", k * every, std=scale(i, k) * noise))
            rows.append(tensor(name.format(i), k * every, std=0.02))
    return Table.of("tensors", rows)


def test_even_layers_are_healthy_at_any_scale():
    for size in (1e-9, 1e-3, 10):
        for seed in range(3):
            assert judged(UnevenGradientScale(), tensors=layers(lambda i, k, s=size: s, seed=seed)) == []


def test_layers_that_begin_with_zeros_are_healthy():
    rows = layers(lambda i, k: 1e-9 if k == 0 and i % 2 else 1e-3)
    assert judged(UnevenGradientScale(), tensors=rows) == []


@pytest.mark.parametrize(("decades", "severity"), [(3.6, "info"), (6.5, "warning")])
def test_the_spread_is_told(decades, severity):
    rows = layers(lambda i, k: 10 ** (-decades * ((i * 7) % 24) / 23))
    found = {i.code: i for i in same_in_pieces(UnevenGradientScale(), tensors=rows)}
    assert found["spread"].severity == severity
    assert sorted(found) == ["spread"]


def test_gradients_that_vanish_towards_the_input():
    rows = layers(lambda i, k: 10 ** (-(23 - i) * 0.7))
    found = {i.code: i for i in judged(UnevenGradientScale(), tensors=rows)}
    assert found["vanishing_with_depth"].severity == "warning"
    assert found["vanishing_with_depth"].evidence["spearman"] > 0.9
    assert "exploding_with_depth" not in found
    rows = layers(lambda i, k: 10 ** (-i * 0.7), name="net.{}.weight")
    assert "exploding_with_depth" in {i.code for i in judged(UnevenGradientScale(), tensors=rows)}


def test_gradients_alone_are_not_enough():
    rows = layers(lambda i, k: 1.0)
    only = rows.where(rows["role"] == "grad")
    fared = run(UnevenGradientScale(), tensors=only)
    assert (fared.covered, fared.reason) == (0, "no_input")
    assert "--save weights@100" in fared.lack
