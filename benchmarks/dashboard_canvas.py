"""How fast the canvases of the dashboard are, in a real browser: timeline of many events, heat map of a day.

python benchmarks/dashboard_canvas.py [--events 1e7] [--hours 24] [--store FOLDER]
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import generate
import generated_trace
import numpy as np
from machine import described, environment
from playwright.sync_api import sync_playwright

from holter.store import job
from holter.store.compact import compact
from holter.store.trial import Trial
from holter.views.heatmap import keep
from holter.views.timeline.lanes import Timeline

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Page

TOKEN = "benchmark"
FRAMES_MS = 4000
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

MOVE = """async ([keys, ms]) => {
  const canvas = document.querySelector(".timeline-canvas canvas");
  const gaps = [];
  const end = performance.now() + ms;
  let [last, n] = [performance.now(), 0];
  while (performance.now() < end) {
    const key = keys[Math.floor(n++ / 12) % keys.length];
    const box = canvas.getBoundingClientRect();
    const place = { clientX: box.left + box.width * 0.4, clientY: box.top + 200 };
    const turn = { bubbles: true, cancelable: true, deltaY: key === "in" ? -60 : 60 };
    if (key === "in" || key === "out") canvas.dispatchEvent(new WheelEvent("wheel", { ...place, ...turn }));
    else canvas.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
    await new Promise(requestAnimationFrame);
    gaps.push(performance.now() - last);
    last = performance.now();
  }
  return gaps;
}"""
HEAT = """async (path) => {
  const timings = [];
  for (let n = 0; n < 6; n++) {
    const begin = performance.now();
    const bytes = await (await fetch(path)).arrayBuffer();
    const came = performance.now();
    const own = document.querySelector("script[type=module]").src;
    const { Cells } = await import(new URL("heatmap/cells.js", own).href);
    const picture = new Cells(bytes).picture("mean");
    const canvas = new OffscreenCanvas(1500, 480);
    canvas.getContext("2d").drawImage(picture, 0, 0, 1500, 480);
    canvas.getContext("2d").getImageData(0, 0, 1, 1);
    timings.push([came - begin, performance.now() - came]);
  }
  return timings;
}"""
HEAT_ZOOM = """async () => {
  const canvas = document.querySelector("[data-island=heatmap] canvas");
  const box = canvas.getBoundingClientRect();
  const found = [];
  for (let n = 0; n < 40; n++) {
    const begin = performance.now();
    const place = { clientX: box.left + box.width * 0.6, clientY: box.top + 60 };
    const turn = { bubbles: true, cancelable: true, deltaY: n % 20 < 10 ? -80 : 80 };
    canvas.dispatchEvent(new WheelEvent("wheel", { ...place, ...turn }));
    canvas.getContext("2d").getImageData(0, 0, 1, 1);
    found.push(performance.now() - begin);
    await new Promise(requestAnimationFrame);
  }
  return found;
}"""


@contextmanager
def serving(store: str) -> Iterator[str]:
    """Run `holter ui` over a store; yields its address."""
    env = {**environment(), "HOLTER_TOKEN": TOKEN}
    command = [sys.executable, "-m", "holter", "ui", store, "--port", "0"]
    quiet = subprocess.DEVNULL  # requests that are cut off when it ends
    process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=quiet, text=True)
    try:
        assert process.stdout is not None
        address = re.search(r"http://[^/?\s]+", process.stdout.readline())
        assert address is not None
        yield address[0]
    finally:
        process.terminate()
        process.wait(20)


def opened(page: Page, address: str, path: str, ready: str) -> float:
    """Open a page; return the seconds until an island says that it is complete."""
    begin = time.perf_counter()
    page.goto(f"{address}{path}")
    page.wait_for_selector(ready, timeout=120_000)
    return time.perf_counter() - begin


def share(values: list[float], percent: float) -> float:
    """Return a quantile."""
    return float(np.percentile(values, percent))


def timeline(page: Page, address: str, name: str) -> None:
    """Measure the timeline."""
    first = opened(page, address, f"/jobs/{name}/timeline", "[data-island=timeline][data-state=ready]")
    again = opened(page, address, f"/jobs/{name}/timeline", "[data-island=timeline][data-state=ready]")
    print(f"| first picture complete, of a server that has just started | {first:.2f} s | ≤ 1 s |")
    print(f"| the same once it is warm | {again:.2f} s | ≤ 1 s |")
    page.evaluate("performance.clearResourceTimings(); performance.setResourceTimingBufferSize(5000)")
    page.locator(".timeline-canvas canvas").focus()
    moves = {"zoom": ["in", "in", "out", "in", "in", "out", "out"], "pan": ["d", "d", "a"]}
    for what, keys in moves.items():
        gaps = page.evaluate(MOVE, [keys, FRAMES_MS])
        middle, late = (1000 / share(gaps, percent) for percent in (50, 95))
        print(f"| {what}: frames per second, median (slowest 5 %) | {middle:.0f} ({late:.0f}) | ≥ 30 |")
    page.wait_for_selector("[data-island=timeline][data-state=ready]", timeout=60_000)
    asked = page.evaluate(
        "performance.getEntriesByType('resource').filter((e) => e.name.includes('/tiles') && e.responseEnd)"
        ".map((e) => [e.responseStart - e.requestStart, e.encodedBodySize])"
    )
    times = [wait for wait, size in asked if size]
    print(
        f"| tiles while that goes on, server's time, median of {len(times)} | {share(times, 50):.0f} ms | |"
    )
    print(f"| the same, 95 % | {share(times, 95):.0f} ms | ≤ 100 ms |")


def heatmap(page: Page, address: str, name: str) -> None:
    """Measure the heat map."""
    page.goto(f"{address}/")
    first, *rest = page.evaluate(HEAT, f"/api/v1/jobs/{name}/heatmap?store=0&width=1500")
    print(f"| heat map, new server: server, drawing | {first[0]:.0f} ms, {first[1]:.0f} ms | ≤ 200 ms |")
    query, drawing = (share([one[part] for one in rest], 50) for part in (0, 1))
    print(f"| heat map again: server, drawing | {query:.0f} ms, {drawing:.0f} ms | ≤ 200 ms |")
    opened(page, address, f"/jobs/{name}/system", "[data-island=heatmap][data-state=ready]")
    zooms = page.evaluate(HEAT_ZOOM)
    middle, late = share(zooms, 50), share(zooms, 95)
    print(f"| zoom from what is held, median (slowest 5 %) | {middle:.1f} ({late:.1f}) ms | ≤ 20 ms |")
    window = page.evaluate(HEAT, f"/api/v1/jobs/{name}/heatmap?store=0&width=1500&from=30000&to=31500")
    print(f"| 25 minutes of it in full: server | {share([one[0] for one in window], 50):.0f} ms | |")


def made(store: str, events: int, hours: float) -> None:
    """Write the two jobs, unless they are there."""
    if not Path(store, "trace", "job.json").exists():
        folder = generated_trace.write(store, "trace", events)
        compact(folder)
        Timeline(Trial(job.at(folder.url)))
    if not Path(store, "day", "job.json").exists():
        folder = generate.generate(
            store, "day", generate.Training(hours=hours, interval_ms=1000, spans=False)
        )
        keep(Trial(folder), 10**9)  # as `holter run` does when its command has ended


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=lambda text: int(float(text)), default=10_000_000)
    parser.add_argument("--hours", type=float, default=24.0)
    parser.add_argument("--store", help="keep the jobs here; by default they are deleted")
    given = parser.parse_args()
    if CHROMIUM is None:
        raise SystemExit("no Chromium here; on Debian: apt install chromium")
    with tempfile.TemporaryDirectory() as own, sync_playwright() as driver:
        store = given.store or own
        made(store, given.events, given.hours)
        print("| | | target |\n|---|---|---|")
        with serving(store) as address:
            browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
            page = browser.new_page(viewport={"width": 1500, "height": 900})
            page.set_default_timeout(120_000)
            page.goto(f"{address}/?token={TOKEN}")
            timeline(page, address, "trace")
            heatmap(page, address, "day")
            browser.close()
    print(f"\n{given.events:,} events; {given.hours:g} h of 104 devices at 1 s; {described()}")


if __name__ == "__main__":
    main()
