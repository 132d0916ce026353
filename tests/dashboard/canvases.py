"""Jobs that canvases are looked at with, and what a canvas shows."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.generated_trace import write
from tests.cli.conftest import job, told
from tests.dashboard.conftest import until as waited

from holter.store.job import create
from holter.store.writer import Writer

HOSTILE = "<img src=x onerror=alert(1)><script>alert(2)</script>" + "\u202e" + "x" * 9000
expect = pytest.importorskip("playwright.sync_api", reason="Playwright comes with the extra dev").expect
START = 1_700_000_000_000_000_000


def made(folder: Path) -> Path:
    """Write jobs of all kinds into a store."""
    told("before", str(folder), ranks=2, cores=4, steps=60, samples=100)
    write(str(folder), "trace", 60_000, ranks=2)
    job("empty", str(folder))
    hostile = create(str(folder), "hostile", command=[], interval_ms=1000, rules=[], now_ns=START)
    hostile.update(start=START, end=START + 10**10, status="Completed")
    writer = Writer(hostile, HOSTILE[:60])
    count = 50
    operators = {"time": [START + n * 10**8 for n in range(count)], "duration": [9 * 10**7] * count}
    operators |= {"rank": [0] * count, "thread": [1] * count, "kind": ["operator"] * count}
    writer.append(
        "operators",
        {**operators, "name": [HOSTILE] * count, "detail": [f'{{"x": "{HOSTILE[:53]}"}}'] * count},
    )
    samples = {"time": [START + n * 10**9 for n in range(10)], "device": [HOSTILE[:60]] * 10}
    writer.append("samples", {**samples, "metric": ["cpu.core.util"] * 10, "value": [50.0] * 10})
    writer.close()
    return folder


def ready(page, island="timeline"):
    expect(page.locator(f"[data-island={island}]")).to_have_attribute("data-state", "ready")
    return page.locator(f"[data-island={island}] canvas").first


def window(page):
    """The page's window of time, as its address says it; None for the whole job."""
    return page.evaluate(
        "(() => { const asked = new URLSearchParams(location.search);"
        " return asked.has('to') ? [Number(asked.get('from')), Number(asked.get('to'))] : null })()"
    )


def until(page, fits):
    """Wait until the page's window is as told; return it."""
    waited(page, lambda: fits(window(page)))
    return window(page)


def colors(page, island="timeline"):
    """How many colors a canvas shows."""
    return page.evaluate(
        f"""() => {{ const canvas = document.querySelector("[data-island={island}] canvas");
        const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
        return new Set(new Uint32Array(data.buffer)).size }}"""
    )
