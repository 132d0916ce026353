"""Steps and phases that a script marks: breakdown, names, verdict and card agree with the script's clock."""

from __future__ import annotations

import json

import pytest
from tests.jobs.starting import Jobs


@pytest.fixture(scope="module")
def marked(tmp_path_factory):
    """Return a finished job and what its script measured."""
    job = Jobs(tmp_path_factory.mktemp("marked")).train("phases.py")
    assert job.code == 0, job.stderr
    return job, json.loads(job.stdout)


def test_phases_have_the_shares_of_the_scripts_clock(marked):
    job, truth = marked
    told = job.describe()
    assert told["steps"]["count"] == 60
    shares = {name: 100 * truth[name] / truth["elapsed"] for name in truth}
    assert told["breakdown"]["data_loading"] == pytest.approx(shares["data_loading"], abs=3)
    assert told["breakdown"]["checkpoint"] == pytest.approx(shares["checkpoint"], abs=3)
    assert told["breakdown"]["compute"] == pytest.approx(shares["simulate"] + shares["collide"], abs=3)
    named = {one["name"]: one["pct"] for one in told["named_work"] if one["part"] == "compute"}
    assert named == {
        "simulate": pytest.approx(shares["simulate"], abs=3),
        "collide": pytest.approx(shares["collide"], abs=3),
    }
    assert told["program"] is None
    assert told["cost"]["faults"] == []


def test_the_card_names_the_phases(marked):
    job, _ = marked
    card = job.stderr[job.stderr.index("── holter") :]
    (line,) = [line for line in card.splitlines() if line.startswith(" phases")]
    assert line.index("simulate") < line.index("collide")
    assert "60 steps" in card
    assert "compute" in card
