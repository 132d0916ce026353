"""A browser that notes what must not happen: errors, dialogs, requests to anywhere else."""

from __future__ import annotations

import json
import shutil
import time
from importlib.resources import files

import pytest
from tests.dashboard.made import recorded
from tests.dashboard.serving import PATIENCE_S, serving

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


class Looked:
    """A page that notes what must not happen on it."""

    def __init__(self, context, server) -> None:
        context.set_default_timeout(1000 * PATIENCE_S)
        self.page = context.new_page()
        self.wrong: list[str] = []
        own = (f"http://{server.own}", "data:", "blob:") if server else ("file:", "data:")
        noted = ("error", "warning")
        self.page.on("console", lambda said: self.wrong.append(said.text) if said.type in noted else None)
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.page.on("dialog", lambda dialog: (self.wrong.append(dialog.message), dialog.dismiss()))
        self.page.on(
            "request", lambda asked: None if asked.url.startswith(own) else self.wrong.append(asked.url)
        )


@pytest.fixture(scope="module")  # its event loop must not run on below tests of other rooms
def browser():
    if CHROMIUM is None:
        pytest.skip("no Chromium here; on Debian: apt install chromium")
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright comes with the extra dev")
    playwright.expect.set_options(timeout=1000 * PATIENCE_S)
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture(scope="session")
def profiled(tmp_path_factory):
    """A store with a small training, `small`, recorded with windows of every profiler and with tensors."""
    pytest.importorskip("torch")
    pytest.importorskip("pyinstrument")
    folder = tmp_path_factory.mktemp("profiled")
    recorded(folder / "store", folder)
    return folder / "store"


@pytest.fixture(scope="module")
def server(store):
    """Serve the module's store."""
    with serving(store) as running:
        yield running


@pytest.fixture
def look(browser, server):
    """Open a page of the module's server."""
    contexts = []

    def open_page(path, *, width=1200, height=900, scheme="light", **more):
        viewport = {"width": width, "height": height}
        context = browser.new_context(viewport=viewport, color_scheme=scheme, **more)
        contexts.append(context)
        seen = Looked(context, server)
        seen.page.goto(f"http://{server.own}/?token=secret-token")
        seen.page.goto(f"http://{server.own}{path}")
        return seen

    yield open_page
    for context in contexts:
        context.close()


def until(page, true):
    """Wait; the page's policy lets nobody evaluate text in it, as `wait_for_function` would."""
    deadline = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < deadline
        page.wait_for_timeout(50)  # and hear what happens meanwhile, as a plain sleep would not


def settled(page):
    """Wait until every part of a page lives and, looked at, has drawn itself."""
    until(page, lambda: page.locator("[data-island]:not([data-alive])").count() == 0)
    for chart in page.locator("[data-island=figure]").all():
        if chart.is_visible():
            chart.scroll_into_view_if_needed()
            until(page, lambda chart=chart: chart.get_attribute("data-state") in ("ready", "failed"))
    page.evaluate("window.scrollTo(0, 0)")


def fits(page, width):
    """Wait until a page is not wider than its window."""
    until(page, lambda: page.evaluate("document.documentElement.scrollWidth") <= width)


def violations(page, *only):
    """Return what of WCAG 2.1 A and AA a page does not keep; of some rules only, where these are given."""
    page.evaluate(files("axe_core_python").joinpath("axe.min.js").read_text(encoding="utf-8") + "; 0")
    rules = {"runOnly": {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]}}
    if only:
        rules = {"runOnly": {"type": "rule", "values": only}}
    found = page.evaluate(f"axe.run(document, {json.dumps(rules)})")
    return [(one["id"], [node["html"][:200] for node in one["nodes"]][:3]) for one in found["violations"]]
