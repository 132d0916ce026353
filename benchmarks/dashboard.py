"""What the dashboard's server costs: a long list, a long job, and a running job with many open tabs.

python benchmarks/dashboard.py [--jobs 10000] [--tabs 50] [--seconds 30]

A tab is what a browser does: it holds the stream of events, and after each change it fetches the page's
inside and its charts, compressed. CPU time is the server process' own; latency is from when the newest sample
that an answer shows was taken to when the answer has arrived.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import re
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.request import Request, urlopen

import numpy as np
import psutil
from machine import HERE, described, environment

from holter.store import job

if TYPE_CHECKING:
    from collections.abc import Iterator

TOKEN = "benchmark-token"
HEADERS = {"Authorization": f"Bearer {TOKEN}", "Accept-Encoding": "gzip"}
FIGURES = "breakdown_over_steps,phases_over_time,step_times,utilization"
TRAINING = """
import time, holter
while True:
    with holter.step():
        time.sleep(0.05)
"""


@contextmanager
def serving(store: str) -> Iterator[tuple[str, psutil.Process]]:
    """Run a server of a store; give its address and process."""
    command = [sys.executable, "-m", "holter", "ui", store, "--port", "0"]
    env = {**environment(), "HOLTER_TOKEN": TOKEN}
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        found = re.search(r"http://[^/]+", process.stdout.readline())
        assert found is not None
        try:
            yield found[0], psutil.Process(process.pid)
        finally:
            process.terminate()


def ask(address: str) -> tuple[float, int]:
    """Ask once; return seconds and compressed bytes."""
    began = time.perf_counter()
    with urlopen(Request(address, headers=HEADERS)) as answer:
        size = len(answer.read())
    return time.perf_counter() - began, size


def many_jobs(count: int) -> None:
    """List a store of many jobs, at first and again."""
    with tempfile.TemporaryDirectory() as folder:
        for number in range(count):
            one = job.create(
                folder, f"job-{number}", command=["x"], interval_ms=500, rules=[], now_ns=10**18 + number
            )
            one.update(status="Completed", end=10**18 + 10**9)
        with serving(folder) as (at, _):
            _ready(at)
            first, (again, size) = ask(f"{at}/")[0], ask(f"{at}/")
            time.sleep(20 * first)  # what was listed is stale by now
            later = ask(f"{at}/?name=job-77")[0]
    told = f"first {first:.2f} s, at once again {again * 1e3:.0f} ms, searched later {later:.2f} s"
    print(f"{count} jobs: {told}, page {size / 1e3:.0f} kB")


def long_job(hours: float, ranks: int) -> None:
    """Open a job of many hours and ranks, as `generate.py` makes them: never seen, then by a new server."""
    with tempfile.TemporaryDirectory() as folder:
        name = "long"
        size_of = ["--hours", str(hours), "--ranks", str(ranks)]
        made = [sys.executable, str(HERE / "generate.py"), folder, "--job", name, *size_of]
        subprocess.run(made, env=environment(), check=True, stdout=subprocess.DEVNULL)
        print(f"job of {hours:g} h, {ranks} ranks:")
        with serving(folder) as (at, server):
            _ready(at)
            began, spent = time.perf_counter(), _spent(server)
            page, _ = ask(f"{at}/jobs/{name}")
            while b'data-early="yes"' in _asked(f"{at}/jobs/{name}?part=inside"):
                time.sleep(0.05)
            whole, cost = time.perf_counter() - began, _spent(server) - spent
            print(f"- never seen: something after {page:.2f} s, text after {whole:.2f} s (CPU {cost:.2f} s)")
        for number in range(1, 4):
            with serving(folder) as (at, server):
                _ready(at)
                spent = _spent(server)
                page, size = ask(f"{at}/jobs/{name}")
                cost = _spent(server) - spent
                charts, more = ask(f"{at}/api/v1/jobs/{name}/figures?names={FIGURES}&width=600&html=yes")
                query = f"names={FIGURES}&width=600&html=yes&from=3600&to=4000"
                zoom = ask(f"{at}/api/v1/jobs/{name}/figures?{query}")[0]
            text = f"all text after {page:.2f} s ({size / 1e3:.0f} kB, CPU {cost:.2f} s)"
            drawn = f"its charts in {charts:.2f} s more ({more / 1e3:.0f} kB), zoomed {zoom * 1e3:.0f} ms"
            print(f"- described before, new server {number}: {text}, {drawn}")


def _spent(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _asked(address: str) -> bytes:
    with urlopen(Request(address, headers={"Authorization": f"Bearer {TOKEN}"})) as answer:
        return bytes(answer.read())


def many_tabs(tabs: int, seconds: float) -> None:
    """Watch a running job with one tab, then with many; CPU of the server, and latency."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "train.py")
        script.write_text(TRAINING)
        store = str(Path(folder, "store"))
        run = [sys.executable, "-m", "holter", "run", "--job", "live", "--store", store, "--", sys.executable]
        with subprocess.Popen([*run, str(script)], env=environment(), stderr=subprocess.DEVNULL) as training:
            try:
                while not Path(store, "live", "samples").exists():
                    time.sleep(0.2)
                with serving(store) as (at, server):
                    _ready(at)
                    for count in (0, 1, tabs):
                        asyncio.run(_watch(at, server, count, seconds))
            finally:
                training.terminate()


async def _watch(at: str, server: psutil.Process, tabs: int, seconds: float) -> None:
    ages: list[float] = []
    sizes: list[int] = []
    with urlopen(Request(f"{at}/api/v1/jobs/live", headers={"Authorization": f"Bearer {TOKEN}"})) as answer:
        started = json.load(answer)["job"]["start"] / 1e9
    tasks = [asyncio.create_task(_tab(at, started, ages, sizes)) for _ in range(tabs)]
    await asyncio.sleep(5)  # what opening costs is not what looking costs
    before, began = server.cpu_times(), time.monotonic()
    del ages[:], sizes[:]
    await asyncio.sleep(seconds)
    after, lasted = server.cpu_times(), time.monotonic() - began
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    share = 100 * (after.user + after.system - before.user - before.system) / lasted
    told = f"{tabs} tabs: server {share:.1f} % of a core"
    if ages:
        often, late = len(ages) / tabs / lasted, np.percentile(ages, 90)
        told += f", {often:.2f} updates a second each of {np.mean(sizes) / 1e3:.0f} kB; the newest sample is"
        told += f" {np.median(ages):.1f} s old when its chart arrives (90 % under {late:.1f} s)"
    print(told)


async def _tab(at: str, started: float, ages: list[float], sizes: list[int]) -> None:
    host, port = at.removeprefix("http://").split(":")
    stream, out = await asyncio.open_connection(host, int(port))
    head = "".join(f"{name}: {value}\r\n" for name, value in HEADERS.items())
    out.write(f"GET /events?job=live&store=0 HTTP/1.1\r\nHost: {host}:{port}\r\n{head}\r\n".encode())
    # One connection for what is fetched, kept open as browsers do.
    answers, questions = await asyncio.open_connection(host, int(port), limit=2**24)
    while True:
        line = await stream.readline()
        if not line:
            return
        if line.strip() != b"event: changed":
            continue
        inside = "/jobs/live?store=0&part=inside"
        charts = f"/api/v1/jobs/live/figures?names={FIGURES}&width=600&html=yes&store=0"
        size = 0
        for path in (inside, charts):
            questions.write(f"GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\n{head}\r\n".encode())
            body = await _body(answers)
            size += len(body)
        sizes.append(size)
        drawn = json.loads(gzip.decompress(body))["figures"]["utilization"]
        values = drawn["series"][0]["values"]
        newest = max(x for x, value in zip(drawn["x"], values, strict=True) if value is not None)
        ages.append(time.time() - started - newest)


async def _body(answers: asyncio.StreamReader) -> bytes:
    head = (await answers.readuntil(b"\r\n\r\n")).decode().lower()
    length = re.search(r"content-length: (\d+)", head)
    if length is not None:
        return await answers.readexactly(int(length[1]))
    body = b""
    while size := int(await answers.readline(), 16):
        body += await answers.readexactly(size)
        await answers.readline()
    await answers.readline()
    return body


def _ready(at: str) -> None:
    for _ in range(100):
        try:
            ask(f"{at}/app/x/page.js")
            return
        except OSError:
            time.sleep(0.05)


def main() -> None:
    """Measure all three."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--hours", type=float, default=12.0)
    parser.add_argument("--tabs", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=30.0)
    given = parser.parse_args()
    many_jobs(given.jobs)
    if given.hours:
        long_job(given.hours, 8)
    many_tabs(given.tabs, given.seconds)
    print(described())


if __name__ == "__main__":
    main()
