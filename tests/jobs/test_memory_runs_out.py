"""A training that keeps what each step makes is told when the memory will be full."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from tests.jobs.starting import holter

HOARDS = """
import time, torch
from torch import nn
model = nn.Linear(64, 64)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
kept, end = [], time.monotonic() + 24
while time.monotonic() < end:
    optimizer.zero_grad()
    model(torch.randn(16, 64)).square().mean().backward()
    optimizer.step()
    kept.append(b"x" * 1_000_000)
    time.sleep(0.04)
"""


@pytest.mark.slow
def test_a_leak_of_a_megabyte_per_step_is_found_while_it_runs(tmp_path: Path) -> None:
    (tmp_path / "hoards.py").write_text(HOARDS)
    rule = "MemoryRunsOut:window_s=10,skip_s=0,within_h=100"
    holter(
        "run", "--store", "s", "--job", "it", "--rule", rule, "--", sys.executable, "hoards.py", cwd=tmp_path
    )
    told = json.loads(holter("describe", "it", "--store", "s", "--json", cwd=tmp_path).stdout)
    (found,) = [one for one in told["rules"] if one["name"] == "MemoryRunsOut"]
    assert found["status"] == "IssuesFound", found
    grows = found["issues"][0]["evidence"]["growth_bytes_per_s"]
    steps = told["steps"]
    assert grows == pytest.approx(1e9 / steps["mean_ms"], rel=0.3), (grows, steps)
