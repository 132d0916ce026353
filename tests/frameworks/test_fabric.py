"""Lightning Fabric: the script owns its loop; callbacks, loggers and logged numbers have names."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.frameworks.trained import trained

pytestmark = [pytest.mark.framework("lightning"), pytest.mark.slow]


@pytest.mark.capability("Fabric", "steps", "identical", "numbers", "callbacks", "checkpoints")
@pytest.mark.parametrize(("case", "batches"), [("plain", 1), ("accumulated", 4)])
def test_a_loop_with_fabric(framework_python: Path, tmp_path: Path, case: str, batches: int) -> None:
    it = trained(framework_python, "fabric_loop.py", case, tmp_path)
    assert it.truth["model"] == it.alone["model"]
    assert it.told["cost"]["faults"] == []
    assert it.told["steps"]["count"] == it.truth["steps"] == 40 // batches
    assert it.told["steps"]["unit"] == "one optimizer step" + (
        f", from {batches} batches" if batches > 1 else ""
    )
    assert it.scalars("loss", "train") == pytest.approx(it.truth["losses"])
    twice = [2 * loss for loss in it.truth["losses"][batches - 1 :: batches]]
    assert it.scalars("twice", "train") == pytest.approx(twice)
    assert it.seconds("callback Shower.after_step") == pytest.approx(it.truth["took"]["callback"], rel=0.05)
    assert it.named("callback Shower.after_step") > 5
    spans = it.job.trial.table("spans", where="worker = -1")
    assert {"Net"} == set(spans.where(spans["phase"] == "forward")["name"].tolist())
    (saved,) = spans.where(spans["phase"] == "checkpoint").to_rows()
    assert saved["value"] > 1000


@pytest.mark.capability(
    "Fabric",
    "evaluation",
    parts="data loading, forward with loss, backward, optimizer, evaluation, callbacks",
)
def test_the_breakdown_agrees_with_a_clock_in_the_script(framework_python: Path, tmp_path: Path) -> None:
    it = trained(framework_python, "fabric_loop.py", "clocked", tmp_path, alone=False)
    assert it.told["cost"]["faults"] == []
    assert it.told["steps"]["count"] == it.truth["steps"]
    assert it.off_clock("load", "data_loading") < 3
    assert it.off_clock("forward", "forward", "loss") < 3
    assert it.off_clock("backward", "backward") < 3
    assert it.off_clock("optimizer", "optimizer") < 3
    assert min(it.of_clock("load"), it.of_clock("optimizer")) > 3
    assert it.share("eval") == pytest.approx(it.of_clock("evaluate"), abs=3)
    assert it.named("callback Shower.after_step") == pytest.approx(it.of_clock("callback"), abs=3)


@pytest.mark.capability("Fabric", "verdict")
@pytest.mark.parametrize("case", ["data", "compute"])
def test_twins_get_their_verdicts(framework_python: Path, tmp_path: Path, case: str) -> None:
    it = trained(framework_python, "fabric_loop.py", case, tmp_path, alone=False)
    if case == "compute":
        assert "ata loading takes" not in it.told["verdict"]["sentence"]
    else:
        assert "ata loading takes" in it.told["verdict"]["sentence"]
        assert "Samples.__getitem__" in it.told["verdict"]["sentence"]
