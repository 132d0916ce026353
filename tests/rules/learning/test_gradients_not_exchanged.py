"""GradientsNotExchanged: ranks that should train one model together, and those that need no exchange."""

from __future__ import annotations

import pytest
from tests.rules.facts import ask, of_ranks

from holter.rules import GradientsNotExchanged


@pytest.mark.parametrize(
    ("facts", "step"),
    [
        ({}, 2),
        ({"values": lambda rank, step: [rank, step]}, 16),
        ({"exchanges": lambda *_: 2}, 100),
        ({"ddp": lambda *_: True, "unwrapped": lambda *_: True}, 1),
    ],
    ids=["same data", "different beginnings", "other exchanges", "module inside DDP"],
)
def test_ranks_that_never_exchange_gradients_are_found(facts, step):
    (issue,) = ask(GradientsNotExchanged(), of_ranks(**facts))
    assert issue.step_end == step


@pytest.mark.parametrize(
    "facts",
    [
        {"sharded": lambda *_: True},
        {"names": lambda rank, _: [f"layer{rank}.weight", "b.weight"]},
        {"optimizers": lambda rank, _: [{"lr": 0.1 * (1 + rank)}]},
        {"ddp": lambda *_: True},
        {"reductions": lambda _, step: step + 1},
    ],
    ids=["shards", "pipeline", "searched rates", "ddp", "reduced by hand"],
)
def test_ranks_that_need_no_exchange_are_left_alone(facts):
    assert not ask(GradientsNotExchanged(), of_ranks(**facts))
