"""Round-off that grows is told from the first difference that it does not explain."""

from __future__ import annotations

import math

import numpy as np
import pytest

from holter.analysis.tensors.execution_order import Stage, TensorPlace
from holter.analysis.tensors.first_difference import Noise, Observation, Search, is_noise


def one(step, name, apart, stage=Stage.FORWARD, **more):
    """Return an observation."""
    place = TensorPlace(stage, name, more.pop("kind", ""), more.pop("parameter", ""))
    given = {"same": apart == 0, "by": "statistics", "role": "output", **more}
    return Observation(step, "train", 0, name, place=place, apart=apart, **given)


def searched(*steps, depth=20, spacing=1.0, elements=10**6, noise=None):
    """Look through steps until the first difference."""
    search = Search(depth=depth, spacing=spacing, elements=elements, noise=noise)
    for observations in steps:
        if not search.step(observations):
            break
    return search.found


def test_nothing_and_equal():
    assert searched().outcome == "nothing"
    assert searched([one(0, "a", 0.0), one(0, "b", 0.0)], [one(1, "a", 0.0)]).outcome == "identical"


def test_round_off_that_grows_smoothly():
    """As of many real networks: some 1e-7 an operation, growing by each step."""
    random = np.random.default_rng(0)
    level, steps = 1e-7, []
    for step in range(60):
        observations = []
        for layer in range(20):
            level *= random.uniform(0.9, 1.2)
            observations.append(one(step, f"layer{layer}", level))
        observations.append(one(step, "loss", 2 * level, Stage.LOSS))
        observations.append(one(step, "gradient/w", 10 * level, Stage.GRADIENT))
        steps.append(observations)
        level = min(level, 0.1)
    found = searched(*steps)
    assert found.outcome == "round_off"
    assert found.bits.name == "layer0"
    assert found.levels[0].apart < 1e-4 < found.levels[-1].apart


def test_the_first_jump_is_found_and_not_what_follows_from_it():
    found = searched(
        [one(0, "a", 2e-7), one(0, "norm", 5e-6), one(0, "b", 4e-6), one(0, "c", 0.1)],
        [one(1, "a", 1.0)],
    )
    assert found.outcome == "different"
    assert found.first.name == "norm"
    assert [other.name for other in found.agreeing] == ["a"]
    assert [other.name for other in found.beyond] == ["b", "c"]
    assert found.tolerance == pytest.approx(3.2e-6)


def test_no_step_is_read_after_the_first_difference():
    search = Search(depth=1, spacing=1.0, elements=1)
    assert search.step([one(0, "a", 0.0)])
    assert not search.step([one(1, "a", 0.5)])


def test_steps_that_were_not_compared_may_have_let_round_off_grow():
    first = [one(0, "a", 1e-7)]
    found = searched(first, [one(100, "a", 1e-3)])
    assert found.outcome == "unclear"
    assert found.first.step == 100
    assert searched(first, [one(1, "a", 1e-3)]).outcome == "different"
    assert searched(first, [one(3, "a", 1e-3)]).outcome == "different"
    assert searched([one(100, "a", 1e-3)]).outcome == "unclear"
    # Data and learning rates do not depend on round-off.
    assert searched(first, [one(100, "a", 0.3, Stage.DATA)]).outcome == "different"
    assert searched(first, [one(100, "lr", 1e-3, Stage.UPDATE)]).outcome == "different"


def test_gradients_have_more_round_off():
    assert searched([one(0, "a", 1e-7), one(0, "g", 1e-5, Stage.GRADIENT)]).outcome == "round_off"
    assert searched([one(0, "a", 1e-7), one(0, "g", 1e-2, Stage.GRADIENT)]).outcome == "different"


def test_a_relu_near_0_changes_a_gradient_by_one_term():
    one_term = [one(0, "a", 1e-7), one(0, "g", 1e-2, Stage.GRADIENT)]
    assert searched(one_term, elements=64 * 128).outcome == "round_off"
    assert searched(one_term, elements=10**6).outcome == "different"
    equal = [one(0, "a", 0.0), one(0, "g", 1e-2, Stage.GRADIENT)]
    assert searched(equal, elements=64 * 128).outcome == "different"


def test_an_update_may_turn_elements_whose_gradient_is_round_off():
    """Adam divides by the size of a gradient, so the weights may differ by a part of their update."""
    first = [one(0, "g", 1e-6, Stage.GRADIENT)]
    weights = {"stage": Stage.STATE, "kind": "parameter", "parameter": "w"}
    assert searched(first, [one(1, "w", 2e-5, moved=1e-2, **weights)]).outcome == "round_off"
    assert searched(first, [one(1, "w", 2e-5, moved=1e-4, **weights)]).outcome == "different"


def test_a_parameter_whose_gradient_is_round_off_is_not_judged():
    """As the bias in front of a batch normalization: its gradient is 0, and Adam makes steps of it."""
    assert is_noise(1e-9, 1e-2)
    assert not is_noise(0.0, 1e-2)
    assert not is_noise(1e-4, 1e-2)
    gradient = one(0, "g", 1.0, Stage.GRADIENT, parameter="conv.bias", noise=True)
    state = one(1, "conv.bias", 0.3, Stage.STATE, kind="parameter", parameter="conv.bias")
    found = searched([gradient], [state, one(1, "conv", 1e-3), one(1, "norm", 1e-6)])
    assert found.outcome == "round_off"
    assert found.noise == ("conv.bias",)


def test_the_coarser_type_is_the_tolerance():
    rounded = {"types": ("float32", "bfloat16")}
    assert searched([one(0, "a", 3e-3, **rounded)]).outcome == "round_off"
    assert searched([one(0, "a", 3e-3, types=("float32", "float32"))]).outcome == "different"
    assert searched([one(0, "a", 0.1, **rounded)]).outcome == "different"
    double = ("float64", "float64")
    assert searched([one(0, "a", 1e-9, types=double)]).outcome == "different"
    assert searched([one(0, "a", 1e-15, types=double)]).outcome == "round_off"


def test_fingerprints_have_no_size():
    differs = {"same": False, "by": "fingerprint"}
    found = searched([one(0, "w", math.nan, Stage.STATE, **differs)])
    assert found.outcome == "unclear"
    assert found.bits.name == "w"
    found = searched([one(0, "w", math.nan, Stage.STATE, **differs), one(0, "loss", 1e-7, Stage.LOSS)])
    assert found.outcome == "round_off"
    assert searched([one(0, "batch", math.nan, Stage.DATA, **differs)]).outcome == "different"


def test_labels_are_the_same_or_not():
    given = {"role": "labels", "same": False}
    assert searched([one(0, "labels", math.nan, Stage.DATA, **given)]).outcome == "different"


def test_a_perturbed_run_shows_where_round_off_is_larger():
    noise = Noise([one(0, "a", 1e-4), one(0, "b", 1e-4), one(50, "a", 0.02)])
    assert searched([one(0, "a", 5e-4), one(0, "b", 9e-4)]).outcome == "different"
    assert searched([one(0, "a", 5e-4), one(0, "b", 9e-4)], noise=noise).outcome == "round_off"
    assert searched([one(0, "a", 2e-3), one(0, "b", 2e-3)], noise=noise).first.name == "a"
    # What it shows includes the growth in steps that were not compared.
    assert searched([one(0, "a", 0.0)], [one(50, "a", 0.1)]).outcome == "unclear"
    assert searched([one(0, "a", 0.0)], [one(50, "a", 0.1)], noise=noise).outcome == "round_off"
    assert searched([one(0, "a", 0.0)], [one(50, "a", 0.5)], noise=noise).outcome == "different"
    # It need not disturb each operation, and may lack tensors.
    some = Noise([one(0, "a", 0.0), one(0, "b", 1e-7)])
    assert searched([one(0, "a", 2e-6)], noise=some).outcome == "round_off"
    assert searched([one(0, "a", 1e-5)], noise=some).outcome == "different"
    assert searched([one(0, "a", 1e-4), one(0, "c", 1e-3)], noise=noise).outcome == "round_off"
    silent = Noise([one(0, "a", 0.0)])
    assert silent.silent
    assert searched([one(0, "a", 1e-3)], noise=silent).outcome == "different"
