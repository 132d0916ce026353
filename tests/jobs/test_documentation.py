"""The commands in the documentation run as printed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.actions.receivers import http, smtp
from tests.gateway import Gateway
from tests.jobs.code_blocks import BASH, PYTHON
from tests.jobs.starting import ROOT, TRAININGS, Jobs, environment


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout's folder in which a reader types commands."""
    made = tmp_path_factory.mktemp("checkout")
    (made / "examples").symlink_to(ROOT / "examples")
    bin_folder = made / "bin"
    bin_folder.mkdir()
    # `holter` and `python` as an activated environment has them.
    python = f'"{sys.executable}"'
    programs = {
        "holter": f"{python} -m holter",
        "python": python,
        "torchrun": f"{python} -m torch.distributed.run",
    }
    for name, words in programs.items():
        (bin_folder / name).write_text(f'#!/bin/sh\nexec {words} "$@"\n')
        (bin_folder / name).chmod(0o755)
    return made


def typed(folder: Path, script: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Run shell lines in the folder."""
    env = environment(**more, PATH=f"{folder / 'bin'}:{os.environ['PATH']}", TMPDIR=str(folder))
    return subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


@pytest.mark.slow
def test_acting_on_issues_as_written(folder: Path, tmp_path: Path) -> None:
    page = (ROOT / "docs/how-to/act-on-issues.md").read_text()
    (folder / "train.py").write_text((TRAININGS / "lost.py").read_text())
    with smtp(tmp_path, "starttls", "me", "pass-word-pass") as box, http() as hook:
        variables = {
            "HOOK_URL": f"{hook.url}/services/x",
            "SMTP_HOST": "localhost",
            "SMTP_PORT": str(box.port),
            "SMTP_USER": "me",
            "SMTP_PASSWORD": "pass-word-pass",
            "SMTP_FROM": "me@example.org",
            "SMTP_CA_FILE": str(tmp_path / "cert.pem"),
        }
        done = typed(folder, "".join(BASH.findall(page)), **variables)
    assert done.returncode == 0, done.stdout + done.stderr
    told = [json.loads(body) for *_, body in hook.requests]
    assert any("NonFiniteLoss" in one.get("text", "") for one in told), "Slack was not told"
    assert any(one.get("type") == "training.rule.state_change" for one in told)
    assert [recipients for _, recipients, _ in box.mails] == [["jane@example.org", "ops@example.org"]]
    assert '"rule": "NonFiniteLoss"' in done.stdout, "the command and the log got the finding"


@pytest.mark.slow
def test_a_job_in_an_object_store_as_written(folder: Path, gateway: Gateway) -> None:
    page = (ROOT / "docs/how-to/store-in-s3.md").read_text()
    (folder / "train.py").write_text((TRAININGS / "plain.py").read_text())
    gateway.bucket("my-bucket")
    variables = {**gateway.variables, "XDG_CACHE_HOME": str(folder / "cache")}
    done = typed(folder, "".join(BASH.findall(page)), **variables)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "recording job first into s3://my-bucket/trainings\n" in done.stderr
    assert re.search(r"^\d+ steps$", done.stdout, re.MULTILINE)
    assert "Deleted 1 job" in done.stdout


@pytest.mark.slow
def test_one_job_over_several_nodes_as_written(folder: Path) -> None:
    page = (ROOT / "docs/how-to/several-nodes.md").read_text()
    (folder / "train.py").write_text((TRAININGS / "ddp.py").read_text())
    done = typed(folder, "".join(BASH.findall(page)))
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr.count("holter: recording job both into") == 2
    assert "ranks: 0, 1" in done.stdout
    assert re.search(
        r"node node1: .*; Completed; rank 1; clock against node node0: ", " ".join(done.stdout.split())
    )


def test_own_loop_example(jobs: Jobs) -> None:
    script = str(ROOT / "examples/own_loop/train.py")
    alone = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, check=True, env=environment()
    )
    done = jobs.run(sys.executable, script)
    assert done.code == 0, done.stderr
    assert done.stdout == alone.stdout
    told = done.describe()
    assert told["steps"]["count"] == 200
    assert "propose" in set(done.table("spans")["name"])
    assert "distance" in set(done.table("scalars")["name"])


@pytest.mark.slow
def test_the_first_command_of_the_readme(tmp_path: Path) -> None:
    if not (Path(sys.prefix) / "ready").is_file():
        pytest.skip("this environment was not made by scripts/setup, which the command would start anew")
    env = environment(HOLTER_VENV=sys.prefix, HOLTER_STORE=str(tmp_path / "store"))
    words = {"cwd": tmp_path, "env": env, "capture_output": True, "text": True, "timeout": 600}
    # The demo trains for 25 s where nothing is said.
    done = subprocess.run([str(ROOT / "scripts/try"), "--seconds", "8"], check=False, **words)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Data loading takes" in done.stderr
    assert "advice" in done.stderr


@pytest.mark.slow
def test_comparing_and_reporting_as_written(folder: Path) -> None:
    page = (ROOT / "docs/how-to/compare-and-report.md").read_text()
    (folder / "train.py").write_text(
        "import sys, time\n"
        "import holter\n"
        "for _ in range(80):\n"
        "    with holter.step():\n"
        "        time.sleep(0.005 if '--workers' in sys.argv else 0.05)\n"
    )
    done = typed(folder, "".join(BASH.findall(page)))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "less time" in done.stdout
    assert "pass: " in done.stdout
    assert "changed: command" in done.stdout
    assert (folder / "after.html").read_text().count("<svg") >= 3
    assert json.loads((folder / "after.ipynb").read_text())["cells"]


@pytest.mark.slow
def test_watching_live_as_written(folder: Path) -> None:
    page = (ROOT / "docs/how-to/watch-live.md").read_text()
    (folder / "train.py").write_text(
        "import time, holter\nfor _ in range(80):\n    with holter.step():\n        time.sleep(0.01)\n"
    )
    done = typed(folder, "".join(BASH.findall(page)))
    assert done.returncode == 0, done.stdout + done.stderr
    assert '"name": "live"' in done.stdout
    assert '"kind":"lines"' in done.stdout
    assert 'holter_jobs{status="Completed"}' in done.stdout
    assert (folder / "live.html").read_text().startswith("<!doctype html>")


@pytest.mark.slow
def test_comparing_tensors_as_written(folder: Path) -> None:
    page = (ROOT / "docs/how-to/compare-tensors.md").read_text()
    # The page's port is a layer norm with another epsilon.
    training = (TRAININGS / "numerics.py").read_text()
    assert training.count('__name__ == "__main__":') == 1
    swapped = "import sys\n" + (
        "sys.argv = [part for one in sys.argv for part in "
        "(['--eps', '1e-12'] if one == '--new-attention' else [one])]\n"
    )
    (folder / "train.py").write_text(
        training.replace(
            '__name__ == "__main__":', '__name__ == "__main__":\n    ' + swapped.replace("\n", "\n    ")
        )
    )
    *lines, check = BASH.findall(page)
    done = typed(folder, "".join(lines))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "The first difference beyond round-off is at step 0" in done.stdout
    assert "blocks.1.norm" in done.stdout
    assert typed(folder, check).returncode == 1
    (code,) = PYTHON.findall(page)
    told = typed(folder, f"python - <<'END'\n{code}END\n", PYTHONPATH=str(ROOT / "src"))
    assert told.stdout.startswith("different blocks.1.norm_output_0"), told.stdout + told.stderr


@pytest.mark.slow
def test_profiling_python_as_written(folder: Path) -> None:
    pytest.importorskip("pyinstrument", reason="pyinstrument comes with the extra dev")
    page = (ROOT / "docs/how-to/profile-python.md").read_text()
    (folder / "train.py").write_text(LOADS.format(steps=120))
    (folder / "long.py").write_text(LOADS.format(steps=10**6))
    windows, whole, programs = BASH.findall(page)
    start = (
        "holter run --job long -- python long.py & "
        "until holter describe long --json 2> /dev/null | grep -q '\"p50_ms\": [0-9]'; do sleep 1; done\n"
    )
    stop = "sleep 8\nholter stop long\nwait || true\n"
    read = programs.replace("python -m pstats", "echo stats | python -m pstats")
    done = typed(folder, start + windows + stop + whole + read)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Random listing order was used" in done.stdout, "pstats read its file"
    assert list(folder.glob("*speedscope*")), "speedscope's file"
    (code,) = PYTHON.findall(page)
    told = typed(folder, f"python - <<'END'\n{code}END\n")
    assert "decode" in told.stdout, told.stdout + told.stderr


@pytest.mark.slow
def test_profiling_a_window_as_written(folder: Path) -> None:
    page = (ROOT / "docs/how-to/profile-a-window.md").read_text()
    (folder / "train.py").write_text(LOADS.format(steps=120))
    (folder / "other.py").write_text(LOADS.format(steps=10**6))
    closer, asked, *more = BASH.findall(page)
    start = (
        "holter run --job longer -- python other.py & "
        "until holter describe longer --json 2> /dev/null | grep -q '\"p50_ms\": [0-9]'; do sleep 1; done\n"
    )
    asked = asked.replace(" long ", " longer ")
    done = typed(folder, f"{closer}{start}{asked}holter stop longer\nwait || true\n{''.join(more)}")
    assert done.returncode == 0, done.stdout + done.stderr
    (code,) = PYTHON.findall(page)
    told = typed(folder, f"python - <<'END'\n{code}END\n")
    assert told.stdout.startswith("[60, 61, 62, 63, 64]"), told.stdout + told.stderr
    assert "aten::" in told.stdout


@pytest.mark.slow
def test_importing_traces_as_written(folder: Path) -> None:
    page = (ROOT / "docs/how-to/import-traces.md").read_text()
    (folder / "traces").mkdir()
    (folder / "profiled.py").write_text(PROFILED)
    (commands,) = BASH.findall(page)
    done = typed(folder, f"python profiled.py\n{commands}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "job slow-run: 1 file, 1 rank" in done.stdout + done.stderr
    assert "a step ──" in done.stdout


LOADS = """
import time, torch

class Photos(torch.utils.data.Dataset):
    def __len__(self):
        return {steps} * 4
    def __getitem__(self, index):
        return self.decode(index)
    def decode(self, index):
        end = time.perf_counter() + 0.002
        while time.perf_counter() < end:
            pass
        return torch.zeros(8)

model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for batch in torch.utils.data.DataLoader(Photos(), batch_size=4):
    optimizer.zero_grad()
    model(batch).sum().backward()
    optimizer.step()
"""
PROFILED = """
import torch
from torch.profiler import ProfilerActivity, profile, schedule

model = torch.nn.Linear(512, 512)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
with profile(activities=[ProfilerActivity.CPU], schedule=schedule(wait=1, warmup=1, active=4),
             on_trace_ready=lambda one: one.export_chrome_trace("traces/rank0.json")) as profiler:
    for _ in range(8):
        optimizer.zero_grad()
        model(torch.randn(64, 512)).sum().backward()
        optimizer.step()
        profiler.step()
"""
