"""The trainings of the zoo, each run once, and what rules say of them."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.jobs.starting import ROOT, environment
from tests.zoo.train import job_of

from holter.evaluation import evaluate
from holter.store.job import find

HERE = Path(__file__).parent
LIMIT_S = 900


def surroundings() -> dict[str, str]:
    """Return the environment in which the trainings are found."""
    found = environment()
    return {**found, "PYTHONPATH": f"{ROOT}:{found['PYTHONPATH']}", "PYTHONWARNINGS": "ignore"}


@dataclass
class Zoo:
    """Trains, several trainings in one process, and asks rules."""

    store: Path
    trained: set[str] = field(default_factory=set)

    def train(self, names: list[str]) -> None:
        """Run those of the trainings that have not been run, each as a job."""
        new = [name for name in dict.fromkeys(names) if name not in self.trained]
        if not new:
            return
        command = [sys.executable, str(HERE / "train.py"), "--store", str(self.store), *new]
        done = subprocess.run(command, env=surroundings(), capture_output=True, text=True, timeout=LIMIT_S)
        assert done.returncode == 0, done.stdout + done.stderr
        self.trained.update(new)

    def ask(self, name: str, rules: list[str]) -> list[dict[str, Any]]:
        """Return what rules make of one training, a document a rule."""
        folder = find(str(self.store), job_of(name))
        manifest = folder.manifest()
        assert manifest["status"] == "Completed", manifest
        found = evaluate(folder, rules, record=False).rules
        assert not [rule["error"] for rule in found if rule["status"] == "Error"]
        return found


def wanted(request: pytest.FixtureRequest, parameter: str) -> list[Any]:
    """Return what a parameter is in the tests of this module that run: one alone needs few trainings."""
    tests = [item for item in request.session.items if item.path == request.path]
    return [item.callspec.params[parameter] for item in tests if hasattr(item, "callspec")]


@pytest.fixture(scope="session")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> Zoo:
    """All trainings share one store."""
    return Zoo(tmp_path_factory.mktemp("zoo"))
