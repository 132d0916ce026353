"""`holter rules new` writes a working rule; broken rules are refused before anything starts."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.conftest import SOURCE

from holter.cli.run.plan import plan

TOUCH = ("--", "touch", "started")


@pytest.fixture(autouse=True)
def nothing_started(own_folder):
    yield
    assert not Path("started").exists(), "the command was started"


def test_what_it_writes_passes_its_own_test_and_the_linter(holter):
    done = holter("rules", "new", "GradientTooLarge")
    assert done.code == 0, done.err
    assert "holter run --rule ./gradient_too_large.py:GradientTooLarge:threshold=5" in done.out
    test = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_gradient_too_large.py"]
    ran = subprocess.run(
        test, env={**os.environ, "PYTHONPATH": str(SOURCE)}, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout
    assert "3 passed" in ran.stdout
    linted = subprocess.run(
        [sys.executable, "-m", "ruff", "check", "--isolated", "--line-length", "110", "."],
        capture_output=True,
        text=True,
        check=False,
    )
    assert linted.returncode == 0, linted.stdout
    made = plan(
        ["--rule", "./gradient_too_large.py:GradientTooLarge:threshold=5", "--fail-on", "issue", "--", "true"]
    )
    own = next(rule for rule in made.rules if rule["name"] == "GradientTooLarge")
    assert own["rule"] == f"{Path.cwd()}/gradient_too_large.py:GradientTooLarge"
    assert own["parameters"] == {"scalar": "grad_norm", "threshold": 5.0}


def test_names(holter):
    assert holter("rules", "new", "loss_jump").code == 0
    assert "class LossJump(Rule)" in Path("loss_jump.py").read_text()
    assert "from loss_jump import LossJump" in Path("test_loss_jump.py").read_text()
    holter("rules", "new", "loss_jump").refused(64, "loss_jump.py exists")
    holter("rules", "new", "a b").refused(64, "'a b'", "letters, digits")
    holter("rules", "new", "class").refused(64, "'class'")
    holter("rules", "new", "step_outlier").refused(64, "rule StepOutlier exists")
    holter("rules", "new", "Fine", "--folder", "gone").refused(64, "no such folder")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("raise ValueError('nothing here')", "own.py:1: ValueError: nothing here"),
        ("x = 1", "holds no rule"),
        ("x = ", "own.py:1: SyntaxError"),
    ],
)
def test_a_file_that_is_no_rule_is_refused(holter, text, says):
    Path("own.py").write_text(text)
    holter("run", "--rule", "./own.py:Mine", *TOUCH).refused(64, says)


def test_expressions_in_a_file(holter):
    Path("a.toml").write_text('[rules.steep]\nwhen = "grad_norm > 10 for 3 steps"\nseverity = "critical"\n')
    made = plan(["--config", "a.toml", "--no-rules", "--action", "log:on=steep", "--", "true"])
    (own,) = made.rules
    assert (own["name"], own["rule"]) == ("steep", "when:grad_norm > 10 for 3 steps")
    assert own["parameters"] == {"level": "critical", "help": ""}
    Path("b.toml").write_text('[rules.steep]\nwhen = "grad_nrom >"\n')
    holter("run", "--config", "b.toml", *TOUCH).refused(64, "it ends where")
    Path("c.toml").write_text('[rules.steep]\nwhen = "loss > 1"\nsevrity = "critical"\n')
    holter("run", "--config", "c.toml", *TOUCH).refused(64, "'sevrity'", "did you mean")
    holter("run", "--rule", "when:loss > ", *TOUCH).refused(64, "it ends where")
