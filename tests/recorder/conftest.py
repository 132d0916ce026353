"""A spool directory, and a session in this very process that leaves no hook behind."""

from __future__ import annotations

import pytest

from holter.recorder import session as sessions
from holter.recorder.spool import hotpath, thread_spool


@pytest.fixture
def spool(tmp_path):
    path = tmp_path / "spool"
    path.mkdir()
    return path


@pytest.fixture
def start(spool):
    """Start a session in this process: `start(max_segments=3)`; it is closed after the test."""
    started = []

    def begin(**options):
        session = sessions.Session(str(spool), **options)
        session.install()
        started.append(session)
        return session

    yield begin
    for session in started:
        session.close()


@pytest.fixture
def session(start):
    return start()


@pytest.fixture(params=["compiled", "python"])
def writer(request, monkeypatch):
    """Write spans with each of the two hot paths in turn."""
    compiled = getattr(hotpath.compiled(), "SpanWriter", None)
    if request.param == "compiled" and compiled is None:
        pytest.skip("the hot path was not compiled here: `python hatch_build.py` says why")
    monkeypatch.setattr(
        thread_spool, "SpanWriter", compiled if request.param == "compiled" else hotpath.SpanWriter
    )
