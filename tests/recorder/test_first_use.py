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
TORCH_USES = (
    "torch.nn.Linear(1, 1)",
    "pickle.loads(model)",
    "torch.optim.SGD([torch.zeros(1, requires_grad=True)], 0.1)",
    "torch.utils.data.DataLoader([1])",
    "torch.zeros(1, requires_grad=True).sum().backward()",
    "torch.zeros(1).to(torch.float64)",
    "torch.compile(abs)",
    "save({}, io.BytesIO())",
    "clip_grad_norm_([torch.zeros(1)], 1.0)",
    "import torch.distributed.checkpoint",
    "import torch.distributed.fsdp",
)
IN_FORKS = """
import io, os, pickle, sys, torch
from torch import save
from torch.nn.utils import clip_grad_norm_
def each(uses, ask):
    for use in uses:
        sys.stdout.flush()
        pid = os.fork()
        if pid == 0:
            exec(use)
            print(ask())
            sys.stdout.flush()
            os._exit(0)
        if os.waitpid(pid, 0)[1] != 0:
            raise SystemExit(f"{use} failed")
def recorded():
    return "holter.recorder.session" in sys.modules
"""
"""Each use in a process of its own, all of which share one import of torch."""
UNWRAPPED = {"torch.autocast_increment_nesting"}
"""A function that the adapter wraps and that only torch calls: within `autocast`, whose class is watched."""


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


def test_the_session_is_loaded_at_the_first_use_of_torch(tmp_path: Path) -> None:
    model = "import torch; import pickle; print(pickle.dumps(torch.nn.Linear(1, 1)))"
    pickled = subprocess.run([sys.executable, "-c", model], capture_output=True, text=True, check=True).stdout
    script = f"{IN_FORKS}\nmodel = {pickled}\neach(['', 'torch.rand(3) + 1', *{TORCH_USES}], recorded)"
    assert loaded(script, tmp_path) == [False, False, *[True] * len(TORCH_USES)]


def test_a_function_of_torch_that_the_script_has_bound_before_goes_on_to_the_adapters(tmp_path: Path) -> None:
    script = f"""{IN_FORKS}
torch.nn.Linear(1, 1)
def recorded_save():
    from holter.recorder import session
    spool = session.current.thread_spool()
    seen = []
    class File(io.BytesIO):
        def write(self, data):
            seen.extend(spool.open_spans())
            return super().write(data)
    save({{}}, File())
    return bool(seen)
print(recorded_save(), torch.save is not save)
"""
    assert loaded(script, tmp_path) == [True, True]


def test_every_function_and_module_of_torch_that_the_adapter_waits_for_begins_its_use(tmp_path: Path) -> None:
    script = f"""{IN_FORKS}
modules = [one for name, one in list(sys.modules.items()) if name.split(".")[0] == "torch"]
def functions():
    return {{(one.__name__, name): id(value) for one in modules for name, value in list(vars(one).items())}}
from holter.recorder import imports
watched, waiting = set(imports._watch.wanted), functions()
torch.nn.Linear(1, 1)
print(*sorted(set(imports._watch.wanted) - watched))
attached = functions()
from holter.recorder import first_use, session
session.current.close()
bare = functions()
wrapped = {{".".join(key) for key in attached if bare.get(key) != attached[key]}}
waited = {{".".join(key) for key in waiting if bare.get(key) != waiting[key]}}
assert "torch.distributed.all_reduce" in wrapped
print(*sorted(wrapped - waited - {UNWRAPPED}))
"""
    assert loaded(script, tmp_path) == []


def test_metrics_alone_load_nothing(tmp_path: Path) -> None:
    script = "import sklearn.metrics; sklearn.metrics.roc_auc_score([0, 1], [0.2, 0.3])"
    assert loaded(f"{script}\n{ASK}", tmp_path) == [False]
    assert list(tmp_path.iterdir()) == []


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
