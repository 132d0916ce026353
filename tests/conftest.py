"""What holds for all tests: signals do what they usually do; a real S3 server for those that want it."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest
from tests.gateway import MISSING, WHERE_FROM, Gateway

# Started in the background, as by nohup or `&` in a script, a process ignores these, and all its children do.
for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)


@pytest.fixture(scope="session")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """An S3 server that runs as long as the tests; about 13 s to start, so only when a test wants it."""
    if MISSING:
        pytest.skip(f"no S3 server here: {', '.join(MISSING)} missing; {WHERE_FROM}")
    server = Gateway(tmp_path_factory.mktemp("gateway"))
    try:
        yield server.start()
    finally:
        server.close()
