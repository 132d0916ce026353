"""A framework that a script imports and does not use costs little: the session is loaded at the first use."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.recorder.reading import BOOTSTRAP, SOURCE

ASK = "import sys; print('holter.recorder.session' in sys.modules)"
DATA = "import numpy; x = numpy.random.rand(50, 3); y = (x[:, 0] > 0.5).astype(int)"
USES = {
    "xgboost": "xgboost.DMatrix(x, y)",
    "lightgbm": "lightgbm.Dataset(x, y)",
    "sklearn.linear_model": "sklearn.linear_model.Ridge().fit(x, y)",
}


def loaded(script: str, spool: Path) -> list[bool]:
    """Run a script under the bootstrap; return its statements on whether the session is loaded."""
    paths = os.pathsep.join([str(BOOTSTRAP), str(SOURCE)])
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HOLTER_")}
    surroundings = {**kept, "PYTHONPATH": paths, "HOLTER_SPOOL": str(spool)}
    done = subprocess.run(
        [sys.executable, "-c", script], env=surroundings, capture_output=True, text=True, check=True
    )
    assert "holter:" not in done.stderr
    return [line == "True" for line in done.stdout.split()]


@pytest.mark.parametrize("module", USES)
def test_the_session_is_loaded_at_the_first_use(tmp_path: Path, module: str) -> None:
    script = "\n".join([f"import {module}", DATA, ASK, USES[module], ASK])
    assert loaded(script, tmp_path) == [False, True]


def test_metrics_alone_load_nothing(tmp_path: Path) -> None:
    script = "import sklearn.metrics; sklearn.metrics.roc_auc_score([0, 1], [0.2, 0.3])"
    assert loaded(f"{script}\n{ASK}", tmp_path) == [False]
    # Stacks of a program that no adapter records are sampled, see `program_samples`.
    assert [file for file in tmp_path.iterdir() if file.suffix != ".program"] == []


def test_another_librarys_wrapper_is_called_once(tmp_path: Path) -> None:
    script = f"""
import xgboost
{DATA}
calls, original = [], xgboost.DMatrix.__init__
def theirs(self, *args, **named):
    calls.append(1)
    original(self, *args, **named)
xgboost.DMatrix.__init__ = theirs
xgboost.DMatrix(x, y)
xgboost.DMatrix(x, y)
print(len(calls) == 2)
{ASK}
"""
    assert loaded(script, tmp_path) == [True, True]


def test_estimators_that_were_defined_before_the_recording_began_are_recorded(tmp_path: Path) -> None:
    script = f"""
import sys
import sklearn.linear_model
{DATA}
from holter.recorder import imports
imports.uninstall()
imports.install()
sklearn.linear_model.Ridge().fit(x, y)
{ASK}
imports.uninstall()
"""
    paths = {"PYTHONPATH": str(SOURCE), "HOLTER_SPOOL": str(tmp_path)}
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HOLTER_")}
    done = subprocess.run(
        [sys.executable, "-c", script], env={**kept, **paths}, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["True"]
