"""Import a folder of traces by the workers of a cluster, and check what is in the job."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from tests.jobs.starting import environment

from holter.job import open as open_job

RANKS, EVENTS = 3, 2000


def traces(tmp_path: Path) -> Path:
    """Write a folder with a trace of each rank, and a damaged one."""
    (tmp_path / "traces").mkdir()
    for rank in range(RANKS):
        events = [
            {"ph": "X", "cat": "cpu_op", "name": "op", "pid": 1, "tid": 1, "ts": 10 * at, "dur": 5}
            for at in range(EVENTS)
        ]
        (tmp_path / "traces" / f"rank{rank}.json").write_text(json.dumps({"traceEvents": events}))
    (tmp_path / "traces" / "rank9.json").write_text('{"traceEvents": [{"ph": "X", "ts": ')
    return tmp_path / "traces"


def imported(python: Path, folder: Path, on: str) -> None:
    """Import the folder by a cluster, and check what is in the job."""
    store = folder.parent / "store"
    words = ["import", "--store", str(store), "--job", "a", "--on", on, "--json", str(folder)]
    done = subprocess.run(
        [str(python), "-m", "holter", *words],
        env=environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["rows"]["operators"] == RANKS * EVENTS
    assert any("rank9" in file for file in told["skipped"])
    operators = open_job(str(store / "a")).trial.table("operators")
    assert sorted(set(operators["rank"].tolist())) == list(range(RANKS))
