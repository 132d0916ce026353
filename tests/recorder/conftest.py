"""A spool directory, and a session in this very process that leaves no hook behind."""

from __future__ import annotations

import pytest

from holter.recorder import session as sessions


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
