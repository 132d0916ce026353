"""How many steps a job will take is said only where somebody said it, and by whom is said with it."""

from __future__ import annotations

import json
import shutil

import pytest
from tests.cli.conftest import told

from holter.pages.text import overview
from holter.store import job
from holter.store.trial import Trial
from holter.store.writer import Writer
from holter.views.document.planned import planned
from holter.views.document.progress import progress
from holter.views.reading import Reading


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("planned")
    told("before", str(folder), ranks=1, cores=2, steps=100, samples=50)
    return folder


@pytest.fixture
def folder(made, tmp_path):
    shutil.copytree(made / "before", tmp_path / "before")
    return job.find(str(tmp_path), "before")


def noted(folder, kind, *details):
    writer = Writer(folder, "node0")
    now = folder.manifest()["start"]
    times = [now + number for number in range(len(details))]
    texts = [json.dumps(one) for one in details]
    every = len(details)
    events = {"time": times, "kind": [kind] * every, "rank": [one.get("rank", 0) for one in details]}
    writer.append("events", {**events, "name": [""] * every, "detail": texts})
    writer.close()


def loader(folder, **detail):
    noted(folder, "loader", {"index": 7, **detail})


def test_what_a_trainer_said_last_counts_more_than_the_command_and_less_than_the_user(folder):
    folder.update(command=["python", "t.py", "--max_steps", "500"])
    trainer = {"trainer": "transformers.Trainer"}
    noted(
        folder,
        "planned",
        {**trainer, "steps": 300},
        {**trainer, "steps": 700},
        {**trainer, "steps": 9, "rank": 1},
        {**trainer, "steps": "many"},
    )
    assert planned(Trial(folder), None, 0) == (700, "the transformers.Trainer when it began")
    folder.update(total_steps=42)
    assert planned(Trial(folder), None, 0) == (42, "`holter run --total-steps`")


@pytest.mark.parametrize(
    ("command", "steps", "who"),
    [
        (["python", "t.py"], None, ""),
        (["python", "t.py", "--max_steps", "500"], 500, "--max_steps"),
        (["python", "t.py", "--max-steps=5e2", "--epochs", "2"], 500, "--max_steps"),
        (["python", "t.py", "--trainer.max_steps=500"], 500, "--max_steps"),
        (["python", "t.py", "--max_steps", "-1", "--num_train_epochs", "3"], 150, "100 batches"),
        (["python", "t.py", "--epochs"], None, ""),
        (["python", "t.py", "--epochs", "many"], None, ""),
        (["python", "t.py", "--max_steps=nan"], None, ""),
    ],
)
def test_who_said_so(folder, command, steps, who):
    folder.update(command=command)
    loader(folder, batches=100)
    found = planned(Trial(folder), 7, 2)
    assert (found and found[0]) == steps
    assert who in (found[1] if found else "")
    folder.update(total_steps=42)
    assert planned(Trial(folder), 7, 2) == (42, "`holter run --total-steps`")


def test_a_loader_without_a_length_tells_nothing(folder):
    folder.update(command=["python", "t.py", "--epochs", "3"])
    assert planned(Trial(folder), None, 1) is None
    loader(folder, batches=None)
    assert planned(Trial(folder), 7, 1) is None
    assert planned(Trial(folder), 8, 1) is None


def test_progress_needs_nobody_to_type(folder):
    assert progress(Reading(Trial(folder)))["total"] is None
    folder.update(command=["python", "t.py", "--max_steps", "3000"])
    found = progress(Reading(Trial(folder)))
    assert found["total"] == 3000
    assert found["left_s"] > 0
    said = overview.progress(found)
    assert "of 3,000" in said
    assert "Total steps: --max_steps of the command" in said
    assert progress(Reading(Trial(folder)), 5000)["total_from"] == "what was typed"


def test_epochs_of_a_loader_are_counted(folder):
    start = folder.manifest()["start"]
    times = [start + at * 10**9 for at in range(4)]
    writer = Writer(folder, "node0")
    names = ["iterator start", "next batch", "iterator start", "next batch"]
    same = {name: [0] * 4 for name in ("duration", "rank", "thread", "step")}
    columns = {
        "time": times,
        "name": names,
        "phase": ["data_loading"] * 4,
        "worker": [-1] * 4,
        "value": [7.0] * 4,
    }
    writer.append("spans", {**same, **columns})
    writer.close()
    found = progress(Reading(Trial(folder)))
    assert found["epoch"] == 2
    assert found["epoch_s"] == 2.0
