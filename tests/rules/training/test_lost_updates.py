"""LostUpdates: weights rounded to bfloat16, with and without a copy that is not."""

from __future__ import annotations

import numpy as np
import pytest
from tests.rules.training_rows import judged, run, same_in_pieces, scalars, spans, tensor

from holter.rules.training.lost_updates import LostUpdates
from holter.schema.table import Table

STEPS, LAST = 4500, 40


def bfloat16(values):
    bits = values.astype(np.float32).view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) & np.uint32(0xFFFF0000)
    return rounded.view(np.float32)


def training(lr, *, half=True, master=False, adam=True, every=1):
    """Train 1000 weights on noise, with updates as Adam or SGD would make; save the last steps."""
    rng = np.random.default_rng(0)
    kept = bfloat16(0.02 * rng.standard_normal(1000))
    copy, rows = kept.astype(np.float64), []
    for step in range(STEPS):
        gradient = 0.1 * rng.standard_normal(1000)
        update = lr * (3 * gradient if adam else gradient)
        copy = (copy if master else kept.astype(np.float64)) - update
        new = bfloat16(copy) if half else copy.astype(np.float32)
        if step == 0 or (step >= STEPS - LAST and step % every == 0):
            change = float(np.abs(new - kept).mean())
            extremes = {"min": float(new.min()), "max": float(new.max()), "count": 1000}
            sizes = {"delta_abs_mean": change, "abs_mean": float(np.abs(new).mean())}
            rows.append(tensor("fc.weight", step, **sizes, **extremes))
            rows.append(tensor("gradient/fc.weight", step, abs_mean=float(np.abs(gradient).mean())))
        kept = new
    return {
        "tensors": Table.of("tensors", rows),
        "scalars": scalars(lr=[lr] * (STEPS // 50), every=50),
        "spans": spans("optimizer", range(0, STEPS, 50), name="AdamW" if adam else "SGD"),
    }


SMALL = {True: 1e-5, False: 2e-5}


@pytest.mark.parametrize("adam", [True, False])
def test_small_updates_of_half_precision_are_lost(adam):
    (issue,) = same_in_pieces(LostUpdates(), **training(SMALL[adam], adam=adam))
    assert issue.severity in ("warning", "critical")
    assert issue.evidence["lost_share"] > 0.6
    assert issue.evidence["parameters"] == ["fc.weight"]


@pytest.mark.parametrize("adam", [True, False])
@pytest.mark.parametrize("way", [{"half": False}, {"master": True}, {"lr": 1e-2}])
def test_what_keeps_updates_is_healthy(way, adam):
    fared = run(LostUpdates(), **training(adam=adam, **{"lr": SMALL[adam], **way}))
    assert fared.issues == {}
    assert fared.points >= LAST - 1


def test_a_copy_in_higher_precision_that_still_is_where_it_began_is_not_judged():
    tables = training(1e-7, master=True)
    assert judged(LostUpdates(), **tables) == []


def test_gradients_that_are_clipped_make_small_updates():
    tables = training(1e-2, adam=False, half=True)
    clipped = scalars(grad_norm=[100.0] * LAST, grad_norm_clipped=[1.0] * LAST, first=STEPS - LAST)
    tables["tensors"]["delta_abs_mean"][:] /= 100
    assert judged(LostUpdates(), **tables)
    tables["scalars"] = Table.concat([tables["scalars"], clipped])
    assert judged(LostUpdates(), **tables) == []


def test_steps_that_were_saved_far_apart_say_nothing():
    fared = run(LostUpdates(), **training(1e-5, every=5))
    assert (fared.covered, fared.reason) == (0, "no_input")
    assert "--save weights@1" in fared.lack


def test_skipped_steps_change_nothing_rightly():
    tables = training(1e-5)
    tables["spans"] = Table.concat([tables["spans"], spans("skipped", range(STEPS - LAST, STEPS))])
    assert judged(LostUpdates(), **tables) == []
