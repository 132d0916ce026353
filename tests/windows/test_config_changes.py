"""A `profilerconfig.json` that changes while a training runs opens other windows, of other profilers."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from tests.windows.test_live import LIVE, Running


@pytest.mark.slow
def test_another_configuration_while_it_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "profilerconfig.json"

    def configure(**categories: dict) -> None:
        written = {name: json.dumps(value) for name, value in categories.items()}
        path.with_suffix(".new").write_text(json.dumps({"ProfilingParameters": written}))
        path.with_suffix(".new").rename(path)

    configure(DetailedProfilingConfig={"StartStep": 10, "NumSteps": 2})
    monkeypatch.setenv("SMPROFILER_CONFIG_PATH", str(path))
    running = Running(tmp_path, sys.executable, str(LIVE), "100000", options=("--no-rules",))
    try:
        running.until(lambda: len(running.windows()) == 1)
        configure(PythonProfilingConfig={"NumSteps": 3, "cProfileTimer": "cpu_time"})
        running.until(lambda: len(running.windows()) == 2)
        path.unlink()
        running.enough()
        first, second = running.windows()
    finally:
        if running.process.poll() is None:
            running.process.terminate()
            running.process.wait(120)
    assert (first["profiler"], first["first_step"], first["last_step"]) == ("operators", 10, 12)
    assert (second["profiler"], second["order"]) == ("python", "profilerconfig")
    assert second["parameters"] == {"profiler": "cprofile", "timer": "cpu_time"}
    assert second["last_step"] - second["first_step"] == 3
    assert second["rows"]["python_functions"] > 0
