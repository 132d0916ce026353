"""Real trainings with a known problem: the verdict names it, the advice helps, a healthy one is clear."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.jobs.starting import LAUNCH, ROOT, TRAININGS, Jobs

EXAMPLE = ROOT / "examples" / "image_training"


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of real PNG files."""
    folder = tmp_path_factory.mktemp("photos")
    program = "import sys, train; from pathlib import Path; train.make_photos(Path(sys.argv[1]), 128)"
    subprocess.run([sys.executable, "-c", program, str(folder)], cwd=EXAMPLE, check=True)
    return folder


@pytest.mark.capability("PyTorch", "verdict")
@pytest.mark.slow
def test_slow_image_input_is_found_and_the_advice_keeps_its_promise(jobs: Jobs, photos: Path) -> None:
    promised, measured = _slow_then_prepared(jobs, photos)
    assert measured == pytest.approx(promised, rel=0.25), "step times, ms"


def _slow_then_prepared(jobs: Jobs, photos: Path) -> tuple[float, float]:
    """Diagnose the slow training, follow the best advice; return promised and measured step time in ms."""
    script = [sys.executable, str(EXAMPLE / "train.py"), "--data", str(photos)]
    slow = jobs.run(*script, "--epochs", "8")
    assert slow.code == 0, slow.stderr
    told = slow.describe()
    verdict = told["verdict"]
    assert verdict["suspect"] == "data_pipeline"
    assert told["breakdown"]["data_loading"] > 50
    stages = told["dataloading"]["stages"]
    assert stages["decode"] > 5
    assert stages["transform"] > stages["decode"]
    named = verdict["sentence"] + " ".join(item["text"] for item in verdict["evidence"])
    assert "slow_transform" in named
    assert "decode_photo" in named
    promised = min(item["expected_step_ms"] for item in verdict["advice"] if item["expected_step_ms"])

    fixed = jobs.run(*script, "--epochs", "40", "--prepared")
    assert fixed.code == 0, fixed.stderr
    told = fixed.describe()
    assert told["verdict"]["suspect"] != "data_pipeline"
    return promised, told["steps"]["mean_ms"]


@pytest.mark.capability("PyTorch", ranks="the slow rank")
@pytest.mark.slow
def test_the_slow_rank_is_named_not_its_victim(jobs: Jobs) -> None:
    done = jobs.run(*LAUNCH, str(TRAININGS / "ddp.py"), "--steps", "80", "--slow-rank", "1")
    assert done.code == 0, done.stderr
    verdict = done.describe()["verdict"]
    said = " ".join([verdict["sentence"], *(item["text"] for item in verdict["evidence"])])
    assert "rank 1" in said
    assert "rank 0" not in verdict["sentence"]


@pytest.mark.capability("PyTorch", "verdict")
@pytest.mark.slow
def test_a_healthy_training_is_called_healthy_without_a_warning(jobs: Jobs) -> None:
    # Most of a step is a wait, as for a device: what else this machine does makes no step an outlier.
    done = jobs.train("plain.py", "--steps", "120", "--device-ms", "80")
    assert done.code == 0, done.stderr
    told = done.describe()
    assert told["verdict"]["suspect"] in ("healthy", "contention"), told["verdict"]
    raised = [issue for rule in told["rules"] for issue in rule["issues"] if issue["severity"] != "info"]
    assert not raised
    assert not told["cost"]["faults"]
    assert not [rule for rule in told["rules"] if rule["status"] == "Error"]
