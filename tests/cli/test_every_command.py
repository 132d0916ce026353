"""Every command that reads jobs takes `--store` and `--json`."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from tests.cli.conftest import SOURCE, job, told

from holter.cli import COMMANDS, main

NO_READERS = {"run", "demo"}
"""They record a job: their standard output belongs to the command."""
ARGUMENTS = {
    "jobs": [],
    "fleet": [],
    "describe": ["before"],
    "diagnose": ["before"],
    "rules": ["run", "before", "StepOutlier"],
    "profile": ["live"],
    "compare": ["before", "after"],
    "check": ["before", "after"],
    "configure": ["live", "--interval", "1s"],
    "report": ["before", "-o", "one.html"],
    "export": ["before", "--format", "json", "-o", "one.json"],
    "stop": ["live", "--no-wait"],
    "prune": ["--keep", "100"],
    "doctor": [],
    "import": ["trace.json", "--job", "imported"],
}


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("elsewhere"))
    for name in ("before", "after"):
        told(name, folder, ranks=1, cores=1, steps=30, samples=60)
    job("live", folder, status="InProgress", age_s=5)
    return folder


def test_every_command_is_tested():
    assert {*ARGUMENTS, *NO_READERS, "attach", "completion", "recover", "top", "ui"} == set(COMMANDS)


@pytest.mark.parametrize("name", ARGUMENTS)
def test_a_command_reads_another_store_and_prints_json(holter, store, name):
    event = {"ph": "X", "name": "work", "cat": "cpu_op", "pid": 1, "tid": 1, "ts": 1.0, "dur": 5.0}
    Path("trace.json").write_text(json.dumps({"traceEvents": [event]}))
    answer = holter(name, *ARGUMENTS[name], "--store", store, "--json")
    assert answer.code in (0, 1, 3), answer.err
    document = json.loads(answer.out)
    assert document["schema"] == 1
    assert not os.path.exists("holter-jobs"), "the default store was used"


def test_recover_takes_a_store(holter, store):
    holter("recover", "before", "--store", store, "--json").refused(4, "job 'before' has no spool")


def test_rules_show_reads_another_store_and_prints_json(holter, store):
    document = json.loads(holter("rules", "show", "StepOutlier", "--store", store, "--json").out)
    assert (document["schema"], document["name"]) == (1, "StepOutlier")


def test_the_json_of_prune_deletes_only_with_yes(holter, tmp_path):
    for age_s in (100, 50):
        job(f"aged-{age_s}", str(tmp_path / "kept"), age_s=age_s)
    given = ("prune", "--keep", "1", "--store", str(tmp_path / "kept"), "--json")
    for words in ((), ("--dry-run", "--yes")):
        listed = json.loads(holter(*given, *words).out)
        assert (listed["deleted"], [each["name"] for each in listed["jobs"]]) == (False, ["aged-100"])
    assert len(list((tmp_path / "kept").iterdir())) == 2
    assert json.loads(holter(*given, "--yes").out)["deleted"] is True
    assert [path.name for path in (tmp_path / "kept").iterdir()] == ["aged-50"]


def test_the_pages_show_another_store_and_print_their_address(store):
    words = [sys.executable, "-m", "holter", "ui", "--store", store, "--port", "0", "--json"]
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment) as server:
        try:
            text = ""
            while not text.endswith("}\n"):
                text += server.stdout.readline()
            document = json.loads(text)
            assert document["stores"] == [store]
            browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
            with browser.open(document["address"]) as page:
                assert re.search(r"\bbefore\b", page.read().decode())
        finally:
            server.terminate()


@pytest.mark.parametrize("name", sorted(NO_READERS))
def test_commands_that_record_a_job_take_a_store(name, capsys):
    assert main([name, "--help"]) == 0
    assert "--store URL" in capsys.readouterr().out
