"""Tensors of a step stand in the order of computation: the cause before what follows from it."""

from __future__ import annotations

import pytest

from holter.analysis.tensors.execution_order import Stage, execution_order, place_of, place_of_number


def ordered(*tensors: tuple[str, str]) -> list[str]:
    """Return names in the order of computation; they are given in the order in which they were saved."""
    positions = execution_order([place_of(*one) for one in tensors])
    return [name for _, (name, _) in sorted(zip(positions, tensors, strict=True))]


def test_weights_before_data_before_the_forward_pass_before_gradients():
    saved = [
        ("Net_input_0", "model_input:0"),
        ("a_output_0", "output"),
        ("bn_output_0", "output"),
        ("b_output_0", "output"),
        ("CrossEntropyLoss_output_0", "loss"),
        ("a.weight", "weight"),
        ("gradient/a.weight", "grad"),
        ("a.weight/exp_avg", "opt_state"),
        ("b.weight", "weight"),
        ("gradient/b.weight", "grad"),
        ("bn.running_mean", "buffer"),
    ]
    assert ordered(*saved) == [
        "a.weight/exp_avg",
        "a.weight",
        "b.weight",
        "Net_input_0",
        "a_output_0",
        "bn_output_0",
        "b_output_0",
        "bn.running_mean",
        "CrossEntropyLoss_output_0",
        "gradient/b.weight",
        "gradient/a.weight",
    ]


def test_the_input_of_a_module_comes_before_what_its_children_compute():
    saved = [
        ("block.up_input_0", "input"),
        ("block.up_output_0", "output"),
        ("block.down_input_0", "input"),
        ("block.down_output_0", "output"),
        ("block_input_0", "input"),
        ("block_output_0", "output"),
    ]
    assert ordered(*saved) == [
        "block_input_0",
        "block.up_input_0",
        "block.up_output_0",
        "block.down_input_0",
        "block.down_output_0",
        "block_output_0",
    ]


def test_gradients_follow_the_reverse_of_the_forward_pass_not_of_the_optimizer():
    saved = [
        ("first_output_0", "output"),
        ("norm_output_0", "output"),
        ("last_output_0", "output"),
        ("gradient/last.weight", "grad"),
        ("gradient/first.weight", "grad"),
        ("gradient/norm.weight", "grad"),
    ]
    assert ordered(*saved)[3:] == ["gradient/last.weight", "gradient/norm.weight", "gradient/first.weight"]
    assert ordered(*saved[3:]) == ["gradient/norm.weight", "gradient/first.weight", "gradient/last.weight"]


@pytest.mark.parametrize(
    ("name", "stage"),
    [("loss", Stage.LOSS), ("val_loss", Stage.LOSS), ("loss_scale", Stage.UPDATE), ("lr", Stage.UPDATE),
     ("grad_norm_clipped", Stage.GRADIENT), ("update_ratio/group0", Stage.UPDATE)],
)  # fmt: skip
def test_numbers_have_places_too(name, stage):
    assert place_of_number(name).stage is stage


def test_names_that_end_like_another_side_keep_their_module():
    assert place_of("layer.0.output_input_0", "input")[1:3] == ("layer.0.output", "input")
    assert place_of("attention.output_output_0", "output")[1:3] == ("attention.output", "output")
