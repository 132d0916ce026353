"""The page with the sums over all jobs, and the same as JSON."""

from __future__ import annotations

import pytest
from tests.dashboard.serving import serving

from holter.store import index
from holter.store.job import create
from holter.views.fleet import index_entry

HOSTILE = "<script>alert(1)</script>"
HOUR = 3600 * 10**9


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    import time

    store = str(tmp_path_factory.mktemp("fleet") / "store")
    now = time.time_ns()
    made = create(store, "a", command=["x"], interval_ms=500, rules=[], now_ns=now - 10 * HOUR)
    lost = [{"rule": "GCPause", "pct": 10.0}]
    used = {"nodes": 2, "gpus": 16, "idle_pct": 50.0, "idle_of": "accelerators", "lost": lost}
    verdict = {"suspect": "gc", "sentence": HOSTILE, "headline": None}
    made.update(owner=HOSTILE, status="Completed", end=now, usage=used, verdict=verdict)
    index.add(store, index_entry(made.manifest()))
    create(store, "b", command=["x"], interval_ms=500, rules=[], now_ns=now)
    with serving(store) as running:
        yield running


def test_the_page(server):
    status, text, _ = server.get("/fleet?price=2")
    assert status == 200
    assert HOSTILE not in text
    for words in (
        "2 jobs: 1 running",
        "20 machine hours",
        "160 GPU hours",
        "cost 40.00, of it idle 20.00",
    ):
        assert words in text
    assert "Most expensive findings of the last 7 days" in text
    assert "GCPause" in text
    assert 'href="/jobs/a?store=0"' in text
    assert 'href="/fleet"' in server.get("/")[1]


def test_the_document(server):
    found = server.json("/api/v1/fleet?price=2&days=30")[1]
    assert (found["days"], found["total"]["jobs"], found["total"]["idle_cost"]) == (
        30,
        2,
        pytest.approx(20, rel=0.01),
    )
    assert found["problems"][0]["cost"] == pytest.approx(4, rel=0.01)


@pytest.mark.parametrize("query", ["price=x", "price=-1", "price=nan", "days=0", "days=1e400"])
def test_a_number_that_is_none_is_refused(server, query):
    assert server.get(f"/fleet?{query}")[0] == 400
