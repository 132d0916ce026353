"""`holter.open`: tables as lazy frames, a summary, a diagnosis, and how they look in a notebook."""

from __future__ import annotations

import subprocess
import sys
from html.parser import HTMLParser

import pytest
from tests.cli.conftest import SOURCE, told

import holter


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    folder, _ = told("before", str(tmp_path_factory.mktemp("store")), ranks=2, cores=8)
    return holter.open(folder.url)


class Balanced(HTMLParser):
    """Checks that every tag is closed."""

    def __init__(self, text):
        super().__init__()
        self.open = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        if tag != "br":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_tables_are_read_when_asked(job):
    assert len(job.spans) > 1000
    assert len(job.steps) == 1000
    assert {event["kind"] for event in job.events} >= {"process", "loader"}
    assert job.samples.table.rows == len(job.samples)
    assert job.scalars.table.columns.keys() >= {"name", "value"}


def test_a_frame_can_be_narrowed_down(job):
    forward = job.spans.select(where="phase = 'forward'")
    rank_1 = forward.select("time", "duration", where="rank = 1")
    assert len(forward) == 2 * len(rank_1)
    row = next(rank_1.to_rows())
    assert set(row) == {"time", "duration"}
    assert isinstance(row["time"], int)
    middle = row["time"] + 60 * 10**9
    assert 0 < len(rank_1.select(end_ns=middle)) < len(rank_1)
    with pytest.raises(KeyError, match="duration"):
        len(job.spans.select("length"))
    step = int(forward.table["step"][5])
    by_value = job.spans.select(phase="forward", rank=1, step=step)
    assert len(by_value) == len(forward.select(where=f"rank = 1 AND step = {step}")) > 0
    assert len(by_value.select(mode="eval")) == 0
    with pytest.raises(KeyError, match="mode"):
        job.scalars.select(mood="train")


def test_to_pandas_and_to_arrow_need_them_installed(job):
    for name, method in (("pandas", job.steps.to_pandas), ("pyarrow", job.steps.to_arrow)):
        try:
            __import__(name)
        except ImportError:
            with pytest.raises(ImportError, match=name):
                method()
        else:
            assert len(method()) == 1000


def test_summary_and_diagnosis(job):
    summary = job.summary()
    assert summary["job"]["name"] == "before"
    assert job.diagnose()["verdict"] == summary["verdict"]


def test_everything_shows_in_a_notebook(job):
    for result in (job, job.steps, job.spans.select("phase"), job.summary(), job.diagnose()):
        Balanced(result._repr_html_())
    assert "data_pipeline" in job.diagnose()._repr_html_()
    assert "<script>" not in holter.job.Document({"<script>": ["<script>"]})._repr_html_()


def test_a_job_that_is_not_there(tmp_path):
    with pytest.raises(LookupError, match="nothing"):
        holter.open(str(tmp_path / "nothing"))


def test_import_is_light():
    program = (
        "import sys, holter; print({m.split('.')[0] for m in sys.modules} & {'numpy', 'duckdb', 'rich'})"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(SOURCE)},
        check=True,
    )
    assert done.stdout == "set()\n"
