"""Starts a process that reads changed files, and tells what it found, also if it dies."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]


@dataclass
class Batch:
    """What came of one process."""

    reader: str
    inputs: int = 0
    refused: int = 0
    """Inputs of which nothing could be read, and that were refused in words."""
    slowest_s: float = 0.0
    memory: int = 0
    """Bytes, at most."""
    findings: list[str] = field(default_factory=list)


def run(reader: str, seed: int, count: int, folder: Path) -> Batch:
    """Read `count` files; a reader that ends its process, or hangs in C, is a finding."""
    folder.mkdir(parents=True, exist_ok=True)
    found = Batch(reader)
    environment = {
        **os.environ,
        "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}",
        "PYTHONWARNINGS": "ignore",
    }
    words = [sys.executable, "-m", "tests.fuzz.watching", reader, str(seed), str(count), str(folder)]
    limit = 60 + 12 * min(count, 50) + count
    try:
        done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=limit, cwd=ROOT)
    except subprocess.TimeoutExpired:
        found.findings.append(f"a process with seeds {seed} to {seed + count - 1} hangs")
        return found
    for line in done.stdout.splitlines():
        try:
            told = json.loads(line)
        except ValueError:
            continue
        if "finding" in told:
            found.findings.append(f"seed {told['seed']}: {told['finding']}")
        elif "inputs" in told:
            found.inputs, found.refused = told["inputs"], told["refused"]
            found.slowest_s, found.memory = told["slowest_s"], told["memory"]
    if done.returncode or not found.inputs:
        found.findings.append(f"the process ends with {done.returncode}: {done.stderr.strip()[-300:]}")
    return found
