"""The Grafana dashboard: its queries name metrics there are, parse, and find data of a job that runs."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from pathlib import Path

import pytest
from tests.cli.conftest import SOURCE
from tests.dashboard.serving import serving
from tests.ports import free_port

from holter.views.telemetry import OUTGOING

BOARD = json.loads((Path(__file__).parents[2] / "examples/grafana/dashboard.json").read_text())
QUERIES = [target["expr"] for panel in BOARD["panels"] for target in panel["targets"]]
NO_GPU = ("holter_gpu_",)
"""What a machine without a GPU has no data of."""
needs_prometheus = pytest.mark.skipif(
    shutil.which("prometheus") is None or shutil.which("promtool") is None,
    reason="no Prometheus here: apt-get install --no-install-recommends prometheus",
)


def filled(query: str) -> str:
    """Put values where Grafana does."""
    return query.replace("$__rate_interval", "20s").replace("$job", ".+")


def test_every_query_names_metrics_that_are_told():
    for query in QUERIES:
        named = set(re.findall(r"holter_\w+", query))
        assert named, query
        assert named <= set(OUTGOING), query
        assert 'job_name=~"$job"' in query
    assert len(QUERIES) >= 12


def test_panels_have_titles_places_and_sources():
    ids = [panel["id"] for panel in BOARD["panels"]]
    assert len(set(ids)) == len(ids)
    places = {(p["gridPos"]["x"], p["gridPos"]["y"]) for p in BOARD["panels"]}
    assert len(places) == len(ids)
    assert all(p["title"] and p["datasource"]["uid"] == "${source}" for p in BOARD["panels"])
    assert {one["name"] for one in BOARD["templating"]["list"]} == {"source", "job"}


@needs_prometheus
def test_every_query_parses(tmp_path):
    rules = [{"record": f"q{n}", "expr": filled(query)} for n, query in enumerate(QUERIES)]
    file = tmp_path / "rules.json"  # JSON is YAML
    file.write_text(json.dumps({"groups": [{"name": "board", "rules": rules}]}))
    done = subprocess.run(
        ["promtool", "check", "rules", str(file)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(QUERIES)} rules found" in done.stdout


@needs_prometheus
@pytest.mark.slow
def test_every_query_finds_data_of_a_job_that_runs(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(
        "import time, holter\n"
        "for step in range(100_000):\n"
        "    with holter.step():\n"
        "        time.sleep(0.02)\n"
        "    holter.log(loss=float('nan') if step == 50 else 1.0)\n"
    )
    env = {**os.environ, "PYTHONPATH": str(SOURCE), "HOLTER_STORE": str(tmp_path / "store")}
    words = [sys.executable, "-m", "holter", "run", "--job", "seen", "--", sys.executable, str(script)]
    run = subprocess.Popen(words, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while not (tmp_path / "store/seen/job.json").exists():
            time.sleep(0.1)
        with serving(tmp_path / "store") as server, prometheus(tmp_path, server.port) as ask:
            wanted = {filled(query) for query in QUERIES if not any(name in query for name in NO_GPU)}
            waiting, began = set(wanted), time.monotonic()
            while waiting and time.monotonic() - began < 240:
                waiting -= {query for query in waiting if ask(query)}
                time.sleep(1)
            assert not waiting
            # It grows when a file of rows comes: every few seconds at first.
            while not (grown := ask("rate(holter_steps_total[20s]) > 0")) and time.monotonic() - began < 240:
                time.sleep(1)
            assert 0 < float(grown[0]["value"][1]) < 60
            (steps,) = ask('holter_steps_total{job_name="seen"}')
            assert float(steps["value"][1]) > 50
    finally:
        run.terminate()
        run.wait(180)


class prometheus:
    """A Prometheus server that scrapes `holter ui`; gives what asks it a query."""

    def __init__(self, folder: Path, target: int) -> None:
        self.port = free_port()
        config = {
            "global": {"scrape_interval": "1s"},
            "scrape_configs": [
                {
                    "job_name": "holter",
                    "authorization": {"credentials": "secret-token"},
                    "static_configs": [{"targets": [f"127.0.0.1:{target}"]}],
                }
            ],
        }
        (folder / "prometheus.json").write_text(json.dumps(config))
        self.words = [
            "prometheus",
            f"--config.file={folder}/prometheus.json",
            f"--storage.tsdb.path={folder}/tsdb",
        ]
        self.words.append(f"--web.listen-address=127.0.0.1:{self.port}")

    def __enter__(self):
        self.process = subprocess.Popen(self.words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(1200):
            try:
                self.ask("up")
                break
            except OSError:
                time.sleep(0.1)
        return self.ask

    def ask(self, query: str):
        address = f"http://127.0.0.1:{self.port}/api/v1/query?" + urllib.parse.urlencode({"query": query})
        with urllib.request.urlopen(address, timeout=60) as answer:
            return json.load(answer)["data"]["result"]

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(120)
