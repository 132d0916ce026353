"""What rows hold when parameters and gradients are saved more often than every ten steps."""

from __future__ import annotations

from tests.recorder.tensors.conftest import finite
from tests.recorder.tensors.test_capture import Net, train


def test_rows_that_come_often_hold_quantiles_and_hashes_once_in_ten_steps(watch):
    training = watch("weights@1", "/act_output/@1", "gradients@4")
    model = Net()
    model.fc1.weight.requires_grad_(False)
    train(model, 22)
    found = training.end()
    for name in ("blk.0.weight", "gradient/blk.0.weight"):
        told = [row.step for row in found.rows if row.name == name and finite([row["q50"]])]
        assert told == ([0, 10, 20] if name == "blk.0.weight" else [0, 12, 20])
        assert all(finite([row["mean"]]) for row in found.rows if row.name == name)
    moving = {row.step: row["fingerprint"] for row in found.rows if row.name == "blk.0.weight"}
    assert [step for step, hash_ in moving.items() if hash_] == [0, 10, 20]
    # What has not changed has the hash that it had.
    still = {row["fingerprint"] for row in found.rows if row.name == "fc1.weight"}
    assert len(still) == 1
    assert 0 not in still
    assert all(finite([row["q50"]]) for row in found.rows if row.name == "act_output_0")
