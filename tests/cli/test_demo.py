"""The built-in demos: the verdicts of a real run of each differ."""

from __future__ import annotations

import pytest
from tests.cli.conftest import command, described


def test_demos_are_listed_and_a_wrong_name_is_refused(holter):
    listed = holter("demo", "--list").out
    assert listed.startswith("slow_dataloader  ")
    assert "\nhealthy " in listed
    holter("demo", "slow_dataloadr").refused(64, "did you mean 'slow_dataloader'?", "healthy")
    holter("demo", "--seconds", "0").refused(64, "--seconds 0")


def test_a_python_without_torch_is_said(holter, tmp_path):
    holter("demo", "--python", str(tmp_path / "python")).refused(64, "no such file")


@pytest.mark.slow
def test_the_slow_demo_names_its_guilty_stage_and_the_healthy_one_has_none():
    # On a busy machine the healthy training waits for a core.
    for name, suspects in (("slow_dataloader", ["data_pipeline"]), ("healthy", ["healthy", "contention"])):
        done = command("demo", name, "--seconds", "8", timeout=300)
        assert done.returncode == 0, done.stderr
        document = described()
        assert document["verdict"]["suspect"] in suspects, document["verdict"]
        assert ("median_blur (slow_dataloader.py:" in done.stderr) == (name == "slow_dataloader")
