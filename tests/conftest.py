"""What holds for all tests: their order, what signals do; a real S3 server for those that want it."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings
from tests import azurite as azure
from tests.gateway import MISSING, WHERE_FROM, Gateway
from tests.recorder.reading import pythons

# A machine that stands still while examples are made or tried is no fault of theirs.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")

# Started in the background, as by nohup or `&` in a script, a process ignores these, and all its children do.
for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)


def pytest_configure(config: pytest.Config) -> None:
    """Have the order below hold where several processes test: xdist would put files of many tests first."""
    if hasattr(config.option, "loadscopereorder"):
        config.option.loadscopereorder = False


def pytest_report_header() -> str:
    """Say under which Pythons the recorder is compiled and run; tests that need others are skipped."""
    return f"recorder tested with Python {', '.join(sorted(pythons(), key=lambda one: int(one[2:])))}"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put files with the most slow tests first, then those with the most tests, where several processes test.

    So at the end, when one process has nothing left to do, the others are soon through as well.
    """
    if "PYTEST_XDIST_WORKER" not in os.environ:
        return
    slow = Counter(item.path for item in items if item.get_closest_marker("slow"))
    tests = Counter(item.path for item in items)
    items.sort(key=lambda item: (-slow[item.path], -tests[item.path]))


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


@pytest.fixture(scope="session")
def azurite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[azure.Azurite]:
    """A server of Azure's blob storage that runs as long as the tests; about 3 s to start."""
    if azure.MISSING:
        pytest.skip(f"no Azure server here: {azure.PROGRAM} is missing; {azure.WHERE_FROM}")
    server = azure.Azurite(tmp_path_factory.mktemp("azurite"))
    try:
        yield server.start()
    finally:
        server.close()
