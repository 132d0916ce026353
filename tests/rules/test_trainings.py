"""Rules about tensors on real trainings: none fires on a healthy one, and each fault is found by its rule."""

from __future__ import annotations

import math

import torch
from tests.rules.tables import ENDED, look
from tests.rules.trainings import Transformer, images, recorded, sequences
from tests.zoo.material import Convolutions

from holter.rules import Rule, catalogue
from holter.rules.data.nlp_sequence_ratio import NLPSequenceRatio
from holter.rules.patterns.tensors import TensorRule
from holter.rules.training.loss_not_decreasing import LossNotDecreasing
from holter.schema.table import Table

RULES = {name: rule for name, rule in catalogue().items() if issubclass(rule, TensorRule)}


def fired(tables: dict[str, Table], **given: Rule) -> set[str]:
    """Return which rules find something worse than info, with modern defaults."""
    made = {name: rule.of() for name, rule in RULES.items()} | given
    return {n for n, rule in made.items() for i in look(rule, job=ENDED, **tables)[0] if i.severity != "info"}


def falling(step: int) -> float:
    return 0.02 * min(1.0, (step + 1) / 20) * (1 + math.cos(math.pi * step / 300)) / 2


def convolutions(**about):
    torch.manual_seed(1)
    about = {"steps": 300, "lr": falling, "batches": images(2)} | about
    return recorded(about.pop("model", None) or Convolutions(), **about)


def test_a_healthy_convolutional_network():
    assert fired(convolutions()) == set()


def test_a_healthy_transformer_with_warm_up_and_adam():
    torch.manual_seed(1)
    adam = {"optimizer": torch.optim.AdamW, "momentum": None, "lr": lambda step: falling(step) / 20}
    assert fired(recorded(Transformer(), sequences(3), 300, **adam)) == set()


def test_weights_that_the_optimizer_does_not_hold():
    found = fired(convolutions(steps=60, learns=lambda name: not name.startswith("conv1")))
    assert {"UnchangedTensor", "WeightUpdateRatio"} <= found


def test_a_learning_rate_far_too_high():
    found = fired(convolutions(steps=60, lr=lambda step: 1e18))
    assert "ExplodingTensor" in found


def test_relus_that_were_pushed_below_zero():
    model = Convolutions()
    with torch.no_grad():
        model.conv2.bias.fill_(-50.0)
    found = fired(convolutions(model=model, steps=120))
    assert {"DeadRelu", "AllZero"} <= found


def test_a_layer_whose_gradients_vanish():
    model = Convolutions()
    with torch.no_grad():
        model.conv2.weight.mul_(1e-9)
    assert "VanishingGradient" in fired(convolutions(model=model, steps=60, lr=lambda step: 1e-12))


def test_pixels_that_were_never_scaled():
    assert "CheckInputImages" in fired(convolutions(steps=20, batches=images(2, shift=120, size=40)))


def test_labels_that_say_nothing_about_the_images():
    source, other = images(2), images(5)
    mixed = ((next(source)[0], next(other)[1]) for _ in range(200))
    soon = LossNotDecreasing(num_steps=50)
    assert "LossNotDecreasing" in fired(convolutions(steps=200, batches=mixed), LossNotDecreasing=soon)


def test_uneven_classes_and_padding():
    def rare():
        for tokens, _ in sequences(3):
            tokens[:, 6:] = 0
            yield tokens, (tokens[:, 2] == 1).long()

    torch.manual_seed(1)
    of_few = NLPSequenceRatio(batches=2)
    found = fired(recorded(Transformer(), rare(), 120, lr=lambda step: 0.01), NLPSequenceRatio=of_few)
    assert {"ClassImbalance", "NLPSequenceRatio"} <= found
