"""Make docs/screenshots, a picture of every page of the dashboard: python scripts/screenshots.py [STORE].

Without a store a generated one is shown: a job of 8 GPUs and 96 cores that is slow, its faster successor, one
that failed, one that is empty and one that runs: its controls are shown. Chromium has to be installed, and
the extra `dev`.
"""

from __future__ import annotations

import argparse
import io
import os
import re
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from PIL import Image
from playwright.sync_api import sync_playwright

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]
TOKEN = secrets.token_hex(8)
RUNNING = "running"
"""The job that still takes orders, in a generated store."""


def story(store: str) -> None:
    """Put the jobs of the tests' story into a store."""
    sys.path[:0] = [str(ROOT), str(ROOT / "src")]
    from tests.cli.conftest import job, told
    from tests.dashboard.stories import judged

    from holter.store.trial import Trial
    from holter.views.course import course
    from holter.views.document.description import describe
    from holter.views.jobs import judged as verdict

    for name in ("before", "after"):
        folder = told(name, store, ranks=8, cores=96, steps=300, samples=900)[0]
        judged(folder)
        trial = Trial(folder)
        told_of = {"model": "resnet50", "workers": "2" if name == "before" else "16"}
        folder.update(verdict=verdict(describe(trial)), step_course=course(trial), tags=told_of)
    job("empty", store)
    job("failed", store, status="Failed", exit_code=1, tags={"model": "resnet50"})
    # It does not fall silent while the pictures are taken.
    later = time.time_ns() + 3600 * 10**9
    job(RUNNING, store, status="InProgress", age_s=1).write_node("node-0", {"heartbeat": later})


@contextmanager
def serving(store: str) -> Iterator[str]:
    """Run a server of a store; give its address."""
    path = os.pathsep.join(filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH")]))
    env = {**os.environ, "HOLTER_TOKEN": TOKEN, "PYTHONPATH": path}
    command = [sys.executable, "-m", "holter", "ui", store, "--port", "0"]
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as process:
        found = re.search(r"http://[^/]+", process.stdout.readline() if process.stdout else "")
        if found is None:
            raise SystemExit("the server does not start")
        try:
            yield found[0]
        finally:
            process.terminate()


def addresses(page, shown: str) -> dict[str, str]:
    """Return each page's name and address: the list, every page of one job, or the newest, a comparison."""
    jobs = page.locator("table.jobs tbody a").evaluate_all("all => all.map(one => one.getAttribute('href'))")
    found = {"jobs": "/", "fleet": "/fleet"}
    if not jobs:
        return found
    names = [shown, "after"]
    jobs.sort(
        key=lambda one: next((at for at, name in enumerate(names) if f"/jobs/{name}?" in one), len(names))
    )
    page.goto(page.url.split("/?")[0].rstrip("/") + jobs[0])
    links = page.locator("nav.pages a[data-page]").evaluate_all(
        "all => all.map(one => [one.dataset.page, one.dataset.drawer, one.getAttribute('href')])"
    )
    # A drawer is shown over the overview.
    found |= {name: f"{jobs[0]}#{name}" if drawer else href for name, drawer, href in links}
    if any(f"/jobs/{RUNNING}?" in one for one in jobs):
        found["controls"] = f"/jobs/{RUNNING}?store=0#controls"
    if len(jobs) > 1:
        marked = "&".join(f"job=0/{one.split('/')[2].split('?')[0]}" for one in jobs[:2])
        found["compare"] = f"/compare?{marked}"
    return found


def main() -> None:
    """Take them all, light and dark, narrow and wide."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("store", nargs="?")
    parser.add_argument("-o", "--output", default=str(ROOT / "docs" / "screenshots"))
    parser.add_argument("--widths", type=int, nargs="+", default=[1440, 400])
    parser.add_argument("--schemes", nargs="+", default=["light", "dark"])
    parser.add_argument("--job", default="before", help="whose pages; the newest where it is not there")
    parser.add_argument("--pages", nargs="+", help="only these")
    given = parser.parse_args()
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        raise SystemExit("Chromium is not installed; on Debian: apt install chromium")
    Path(given.output).mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as own:
        store = given.store or f"{own}/store"
        if given.store is None:
            story(store)
        with serving(store) as at, sync_playwright() as driver:
            browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
            for width in given.widths:
                for scheme in given.schemes:
                    context = browser.new_context(
                        viewport={"width": width, "height": 900}, color_scheme=scheme
                    )
                    page = context.new_page()
                    page.goto(f"{at}/?token={TOKEN}")
                    for name, address in addresses(page, given.job).items():
                        if given.pages and name not in given.pages:
                            continue
                        # Tall enough for all of it: charts below the window would not be drawn.
                        page.set_viewport_size({"width": width, "height": 900})
                        page.goto(at + address)
                        if "#" in address:
                            page.reload()  # another drawer of the page that is open would not load
                            page.locator("dialog.drawer h1").wait_for()
                        height = page.evaluate("document.documentElement.scrollHeight")
                        page.set_viewport_size({"width": width, "height": min(height, 6000)})
                        page.wait_for_timeout(1500)
                        shot = Image.open(io.BytesIO(page.screenshot(full_page=True))).convert("RGB")
                        few = shot.quantize(64, dither=Image.Dither.NONE)  # a third of the bytes
                        few.save(f"{given.output}/{name}-{scheme}-{width}.png", optimize=True)
                    context.close()
            browser.close()


if __name__ == "__main__":
    main()
