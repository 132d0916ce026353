"""Accelerate: the script owns its loop, whose model, optimizer and loaders Accelerate wraps."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.frameworks.trained import trained

pytestmark = [pytest.mark.framework("transformers"), pytest.mark.slow]
SCRIPT = "accelerate_loop.py"


@pytest.mark.capability("Accelerate", "steps", "identical", "numbers", "evaluation", "checkpoints")
@pytest.mark.parametrize(("case", "batches"), [("plain", 1), ("accumulated", 2)])
def test_a_loop_with_accelerate(framework_python: Path, tmp_path: Path, case: str, batches: int) -> None:
    it = trained(framework_python, SCRIPT, case, tmp_path)
    told, truth = it.told, it.truth
    for name in ("model", "losses", "evaluated"):
        assert truth[name] == it.alone[name]
    assert told["cost"]["faults"] == []
    assert told["steps"]["count"] == truth["steps"] == 40 // batches
    assert told["steps"]["unit"] == "one optimizer step" + (
        f", from {batches} batches" if batches > 1 else ""
    )
    assert it.scalars("loss", "train") == pytest.approx(truth["losses"])
    spans = it.job.trial.table("spans", where="worker = -1")
    assert it.share("eval") > 0
    assert (spans["value"][spans["phase"] == "checkpoint"] > 1000).any()


@pytest.mark.capability(
    "Accelerate", parts="data loading, forward with loss, backward, optimizer, evaluation, checkpoint"
)
def test_the_breakdown_agrees_with_a_clock_in_the_script(framework_python: Path, tmp_path: Path) -> None:
    it = trained(framework_python, SCRIPT, "clocked", tmp_path, alone=False)
    assert it.told["cost"]["faults"] == []
    assert it.told["steps"]["count"] == it.truth["steps"]
    assert it.off_clock("load", "data_loading") < 3
    assert it.off_clock("forward", "forward", "loss") < 3
    assert it.off_clock("backward", "backward") < 3
    assert it.off_clock("optimizer", "optimizer") < 3
    assert min(it.of_clock("load"), it.of_clock("optimizer")) > 3
    assert it.share("eval") == pytest.approx(it.of_clock("evaluate"), abs=3)
    assert it.share("checkpoint") == pytest.approx(it.of_clock("save"), abs=3)


@pytest.mark.capability("Accelerate", "verdict")
@pytest.mark.parametrize("case", ["data", "compute"])
def test_twins_get_their_verdicts(framework_python: Path, tmp_path: Path, case: str) -> None:
    it = trained(framework_python, SCRIPT, case, tmp_path, alone=False)
    if case == "compute":
        assert "ata loading takes" not in it.told["verdict"]["sentence"]
    else:
        assert "ata loading takes" in it.told["verdict"]["sentence"]
        assert "Samples.__getitem__" in it.told["verdict"]["sentence"]
