"""The recipes for Slurm run on a real Slurm with two nodes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.jobs.starting import ROOT, TRAININGS, environment, here
from tests.slurm import MISSING, WHERE_FROM, Slurm

RECIPES = ROOT / "examples" / "slurm"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(MISSING), reason=f"no {', '.join(MISSING)}: {WHERE_FROM}"),
]


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    """Return a running cluster."""
    cluster = Slurm(tmp_path_factory.mktemp("slurm"))
    try:
        yield cluster.start()
    finally:
        cluster.close()


def submitted(slurm: Slurm, folder: Path, *words: str, **variables: str) -> str:
    """Run a recipe to its end; returns the number of its job."""
    printed = slurm.run("sbatch", "--parsable", "--wait", *words, folder=folder, **environment(**variables))
    return printed.splitlines()[-1]


def described(folder: Path, name: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(
        here("describe", name, "--store", str(folder / "holter-jobs"), "--json").stdout
    )
    return document


def test_several_nodes(slurm: Slurm, tmp_path: Path) -> None:
    variables = {"MASTER_ADDR": "127.0.0.1", "PROCESSES_PER_NODE": "1"}
    recipe = str(RECIPES / "several_nodes.sbatch")
    number = submitted(slurm, tmp_path, recipe, str(TRAININGS / "ddp.py"), "--steps", "12", **variables)
    told = described(tmp_path, f"ddp-{number}-0")
    assert told["job"]["status"] == "Completed"
    assert told["job"]["nodes_expected"] == 2
    assert told["ranks"] == [0, 1]
    assert sorted(node["ranks"] for node in told["nodes"]) == [[0], [1]]
    scheduler = told["job"]["scheduler"]
    assert (scheduler["name"], scheduler["job"], scheduler["step"]) == ("slurm", number, "0")
    hours = (scheduler["ends"] - told["job"]["start"]) / 3600e9
    assert 3.9 < hours <= 4.01, "the recipe asks for four hours"


def test_an_array(slurm: Slurm, tmp_path: Path) -> None:
    script = tmp_path / "search.py"
    script.write_text("import os; print(os.environ['SLURM_NTASKS'])")
    number = submitted(slurm, tmp_path, "--array=3-4", str(RECIPES / "array.sbatch"), str(script))
    for task in (3, 4):
        told = described(tmp_path, f"search-{number}_{task}")
        assert told["job"]["status"] == "Completed"
        assert told["job"]["scheduler"]["job"] == f"{number}_{task}"
