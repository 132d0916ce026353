"""A rule file of the user runs where the command line names it, and in sandbox processes only."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from tests.jobs.starting import environment, holter

from holter.store.job import find

RULE = '''
import os
from dataclasses import dataclass
from holter.rules import Lookback, Rule, parameter

with open({pids!r}, "a") as file, open("/proc/self/cmdline") as command:
    file.write(str(os.getpid()) + " " + " ".join(command.read().replace(chr(0), " ").split()) + "\\n")

@dataclass(frozen=True, kw_only=True)
class AnySample(Rule):
    """There is a sample."""

    reads = ("samples",)
    severity = "critical"
    least: int = parameter(1, low=1)
    """The least number of samples."""

    @property
    def lookback(self):
        return Lookback(seconds=float(self.least))

    def evaluate(self, window):
        if window.new("samples").rows or window.samples.rows >= self.least:
            yield self.issue("there are samples")
'''


TRAINING = """
import time, torch
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for batch in torch.utils.data.DataLoader(torch.randn(400, 4), batch_size=4):
    optimizer.zero_grad()
    model(batch).sum().backward()
    optimizer.step()
    time.sleep(0.05)
"""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """Run a job with a rule of a file; returns the job, the file, the list of pids, and the pid of holter."""
    root = tmp_path_factory.mktemp("rule-files")
    pids, rule, store = root / "pids", root / "any_sample.py", root / "store"
    rule.write_text(RULE.format(pids=str(pids)))
    words = ["run", "--store", str(store), "--job", "one", "--interval", "100ms", "--no-rules"]
    words += ["--rule", f"{rule}:AnySample:least=2", "--", sys.executable, "-c", TRAINING]
    command = [sys.executable, "-m", "holter", *words]
    with subprocess.Popen(
        command, env=environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        said, _ = process.communicate(timeout=240)
    assert process.returncode == 0, said.decode()
    return find(str(store), "one"), rule, pids, process.pid


def imports(pids) -> dict[int, str]:
    """Return the processes that imported the file, with their commands."""
    return {int(line.split()[0]): line.partition(" ")[2] for line in pids.read_text().splitlines()}


def test_the_file_is_imported_in_sandbox_processes_only(recorded):
    folder, _, pids, main = recorded
    known = {main, folder.evaluations()["pid"], *(node["agent_pid"] for node in folder.nodes().values())}
    found = imports(pids)
    assert found
    assert not known & found.keys()
    assert all("holter.rules.sandbox" in command for command in found.values()), found


def test_its_rule_has_judged_with_its_parameters(recorded):
    (rule,) = recorded[0].evaluations()["rules"]
    assert (rule["rule"], rule["parameters"], rule["error"]) == ("AnySample", {"least": 2}, None)
    assert [(one["summary"], one["severity"]) for one in rule["issues"]] == [
        ("there are samples", "critical")
    ]


def test_a_finished_job_is_judged_by_it_in_sandbox_processes_only(recorded):
    folder, rule, pids, _ = recorded
    before = set(imports(pids))
    words = ("rules", "run", "one", "--store", folder.url.rpartition("/")[0], f"{rule}:least=3", "--json")
    done = holter(*words, check=False)
    (judged,) = json.loads(done.stdout)["rules"]
    assert (judged["status"], judged["parameters"]) == ("IssuesFound", {"least": 3})
    new = {pid: command for pid, command in imports(pids).items() if pid not in before}
    assert new
    assert all("holter.rules.sandbox" in command for command in new.values()), new


def test_a_value_that_the_rule_does_not_take_is_refused_before_the_command_runs(recorded, tmp_path):
    _, rule, _, _ = recorded
    words = ("run", "--store", str(tmp_path), "--rule", f"{rule}:AnySample:least=0", "--", "touch", "ran")
    done = holter(*words, check=False, cwd=tmp_path)
    assert done.returncode == 64
    assert f"AnySample ({rule}:9): least='0' is not valid; it takes a whole number, at least 1" in done.stderr
    assert not (tmp_path / "ran").exists()
