"""Gradients and weights, and one evaluation of a rule on them."""

from __future__ import annotations

from tests.rules.tables import ENDED, found
from tests.rules.tensor_rows import tensor


def gradient(name, by_step, **about):
    return tensor(f"gradient/{name}", by_step, role="grad", **about)


def judged(rule, table, **more):
    return found(rule, job=ENDED, tensors=table, **more)
