"""A job too long to be read at once: its page is there at once all the same, and fills itself."""

from __future__ import annotations

import shutil
import threading

import pytest
import uvicorn
from starlette.testclient import TestClient
from tests.cli.conftest import told
from tests.dashboard.serving import BEARER, PATIENCE_S, until
from tests.dashboard.stories import judged

from holter.dashboard import job_state
from holter.dashboard.server import application
from holter.dashboard.stores import Stores
from holter.store.job import find
from holter.views import tables
from holter.views.document import description_kept
from holter.views.reading import Reading


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("long")
    judged(told("before", str(folder), ranks=2, cores=2, steps=100, samples=100)[0])
    return folder


@pytest.fixture
def store(made, tmp_path, monkeypatch):
    """A store whose job counts as long; its description is kept."""
    monkeypatch.setattr(tables, "LONG", 100)
    monkeypatch.setattr(description_kept.write, "__kwdefaults__", {"worth": 1})
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    shutil.copytree(made / "before", tmp_path / "store" / "before")
    return str(tmp_path / "store")


@pytest.fixture
def slowly(monkeypatch):
    """Let describing wait until it is set."""
    done, described = threading.Event(), Reading.description.func

    def later(self):
        assert done.wait(PATIENCE_S)
        return described(self)

    prop = type(Reading.description)(later)
    prop.__set_name__(Reading, "description")
    monkeypatch.setattr(Reading, "description", prop)
    yield done
    done.set()


def opened(store):
    return TestClient(application([store], "secret-token"), headers=BEARER)


def test_the_first_look_does_not_wait_and_word_comes_when_all_is_there(store, slowly):
    with opened(store) as client:
        page = client.get("/jobs/before").text
        assert 'data-early="yes"' in page
        assert "tables are being read" in page
        assert 'class="issue ' in page, "what the rules found is a document, and shown at once"
        inside = client.get("/jobs/before?part=inside").text
        assert 'data-early="yes"' in inside
        slowly.set()
        until(lambda: 'data-early=""' in client.get("/jobs/before?part=inside").text)
        inside = client.get("/jobs/before?part=inside").text
        assert "Slowest functions" in inside
        assert "being read" not in inside


@pytest.mark.slow
def test_a_browser_gets_the_choice_of_ranks_once_all_is_there(store, slowly, browser):
    server = uvicorn.Server(uvicorn.Config(application([store], "secret-token"), port=0, log_level="warning"))
    thread = threading.Thread(target=server.run)
    thread.start()
    until(lambda: server.started)
    own = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    page = browser.new_page()
    try:
        page.goto(f"{own}/?token=secret-token")
        page.goto(f"{own}/jobs/before")
        assert page.locator("main[data-early=yes]").count() == 1
        assert page.locator("form.rank").count() == 0
        slowly.set()
        page.locator("form.rank").wait_for()
    finally:
        page.close()
        server.should_exit = True
        thread.join(PATIENCE_S)


def test_its_text_does_not_wait_for_charts_which_can_be_had_without_scripts(store):
    with opened(store) as client:
        until(lambda: 'data-early=""' in client.get("/jobs/before").text)
        page = client.get("/jobs/before/system?axis=step").text
        assert page.count('class="later"') >= 5
        _, board, cards = page.partition('<div class="board">')
        assert board
        assert "<svg" not in cards
        assert 'href="?axis=step&amp;store=0&amp;paint=now"' in page
        drawn = client.get("/jobs/before/system?axis=step&store=0&paint=now").text
        assert 'class="later"' not in drawn
        assert drawn.count("<svg") > 5


def test_where_the_description_is_kept_a_new_server_shows_it_at_once(store, monkeypatch):
    with opened(store) as client:
        client.get("/jobs/before?part=inside")
        client.get("/api/v1/jobs/before")  # waits until it is described
    monkeypatch.setattr("holter.views.document.description._described", None)
    with opened(store) as client:
        page = client.get("/jobs/before").text
        assert 'data-early=""' in page
        assert "Slowest functions" in page


def test_a_later_state_is_described_and_never_shown_early_again(store, slowly):
    folder = find(store, "before")
    first = job_state.JobState(folder, 1)
    assert not first.at_hand()
    assert not first.at_hand(), "it is on its way"
    second = job_state.JobState(folder, 2, first)
    assert not second.at_hand(), "also in a state that came meanwhile"
    stores = Stores([store])
    assert stores.early("before") is not None
    stamp = stores.stamp("before")
    slowly.set()
    until(lambda: stores.early("before") is None)
    until(lambda: stores.stamp("before") != stamp)
    until(lambda: second.version[1])
    assert second.at_hand()
    assert job_state.JobState(folder, 3, second).at_hand()
