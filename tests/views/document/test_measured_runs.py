"""Earlier jobs of the same command are what advice on workers is checked against."""

from __future__ import annotations

import pytest

from holter.store.job import create
from holter.views.document.measured_runs import measured_runs

START = 1_700_000_000 * 10**9
COMMAND = ["python", "train.py", "--lr", "0.1", "--num-workers", "2"]


@pytest.fixture
def store(tmp_path):
    def put(name, at, *, command=COMMAND, host="here", status="Completed", workers=0, step_ms=70.0):
        folder = create(str(tmp_path), name, command=command, interval_ms=1000, rules=[], now_ns=START + at)
        folder.write_node("n0", {"host": host})
        folder.update(status=status, verdict={"suspect": "healthy", "workers": workers, "step_ms": step_ms})
        return folder

    return put


def test_only_earlier_completed_jobs_of_the_command_and_machine_count(store):
    store("before", 1, command=["python", "train.py", "--lr", "0.1", "--num-workers", "0"])
    store("other-rate", 2, command=["python", "train.py", "--lr", "0.2", "--num-workers", "0"])
    store("elsewhere", 3, host="there")
    store("failed", 4, status="Failed")
    store("no-loader", 5, workers=None)
    mine = store("now", 6, workers=2, step_ms=26.0)
    store("later", 7)
    assert [(one.job, one.workers, one.step_ms) for one in measured_runs(mine)] == [("before", 0, 70.0)]


def test_a_job_alone_in_its_store_has_nothing_to_compare_with(store):
    assert measured_runs(store("alone", 1)) == ()
