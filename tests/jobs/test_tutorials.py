"""The tutorials, typed as they stand there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.jobs.starting import ROOT, environment
from tests.jobs.test_documentation import BASH

# A tutorial → what must be seen, on either stream, in this order.
SEEN = {
    "slow-data-loader": (r"Data loading takes", r"augment", r"^data_pipeline$", r"times as fast"),
    "nan-hunt": (
        r"NonFinite",
        r"Stopped",
        r"first bad loss: step \d+ of (?!2000$)\d+",
        r"step \d+: gradient/scale\.bias has mean",
    ),
    "two-ranks": (r"rank 0: forward 1\d ms", r"rank 1: forward 4\d ms", r"StragglerRank"),
    "compare-and-gate": (
        r"cost of the job",
        r"slower: a step",
        r"changed: command",
        r"regression: .*\n(.*\n)*?exit code 1",
        r"pass: ",
        r"### ❌ step time: regression",
    ),
    "own-collector": (r"[1-9]\d* readings, from [1-9]",),
    "old-sagemaker-job": (
        r"gpu0? is little used|LowGPUUtilization",
        r"gpu\.util +3\d\.",
        r"DataLoader +200 times, 300 ms",
    ),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder in which `holter`, `python`, `torchrun` and `pip` are those of an environment of one's own."""
    (tmp_path / "bin").mkdir()
    python = f'"{sys.executable}"'
    programs = {
        "holter": f'{python} -m holter "$@"',
        "python": f'{python} "$@"',
        "torchrun": f'{python} -m torch.distributed.run "$@"',
        # Into a folder on the path: the environment that runs the tests stays as it is.
        "pip": f'{python} -m pip "$@" -q --no-build-isolation --no-deps --target "{tmp_path}/plugins"',
    }
    for name, line in programs.items():
        (tmp_path / "bin" / name).write_text(f"#!/bin/sh\nexec {line}\n")
        (tmp_path / "bin" / name).chmod(0o755)
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize("name", SEEN)
def test_a_tutorial_as_written(name: str, folder: Path) -> None:
    if name == "own-collector":
        pytest.importorskip("hatchling", reason="hatchling, which builds the tutorial's package, is not here")
    page = (ROOT / f"docs/tutorials/{name}.md").read_text()
    env = environment(PATH=f"{folder / 'bin'}:{os.environ['PATH']}", TMPDIR=str(folder), COLUMNS="120")
    env["PYTHONPATH"] += f"{os.pathsep}{folder / 'plugins'}"
    words = ["bash", "-euo", "pipefail", "-c", "".join(BASH.findall(page))]
    done = subprocess.run(
        words,
        cwd=folder,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    at = 0
    for wanted in SEEN[name]:
        found = re.compile(wanted, re.MULTILINE).search(done.stdout, at)
        assert found, f"not seen: {wanted}\n{done.stdout}"
        at = found.start()
