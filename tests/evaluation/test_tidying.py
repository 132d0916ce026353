"""Small files of a running job are merged beside it, and nobody who reads it notices."""

from __future__ import annotations

import time

import pytest
from tests.evaluation.jobs import begin, end, finished, pieces, write
from tests.generated.story import story

from holter.evaluation import choose, documents, evaluate
from holter.evaluation.tidying import Tidying
from holter.store.trial import Trial

RULES = documents(choose(["DataloaderBottleneck", "OverallSystemUsage", "LowGPUUtilization"]))


@pytest.fixture(scope="module")
def tale():
    return story("before", ranks=1, cores=1, steps=80, samples=400)


def test_the_evaluator_judges_the_same_while_files_are_merged(tale, tmp_path, monkeypatch):
    monkeypatch.setattr("holter.evaluation.tidying.MIN_FILES", 8)
    monkeypatch.setattr(Tidying.__init__, "__kwdefaults__", {"min_files": 8, "every_s": 0.0})
    whole = evaluate(finished(tale, tmp_path / "whole", RULES))
    folder = begin(tale, tmp_path / "live", RULES)
    parts = pieces(tale, 30)
    most = 0

    def wait(_seconds):
        nonlocal most
        if parts:
            write(folder, parts.pop(0))
            most = max(most, len(folder.place.files("samples")))
            if len(parts) % 10 == 0:
                time.sleep(1.5)  # let a merge end in between
        else:
            end(folder, tale)

    live = evaluate(folder, live=True, wait=wait)
    assert [(r["issues"], r["details"], r["evaluations"]) for r in live.rules] == [
        (r["issues"], r["details"], r["evaluations"]) for r in whole.rules
    ]
    left = len(folder.place.files("samples"))
    assert left < 30
    assert most < 30
    assert Trial(folder).table("samples").rows == tale.samples.rows


def test_few_files_are_left_alone(tale, tmp_path):
    folder = begin(tale, tmp_path)
    for part in pieces(tale, 5):
        write(folder, part)
    before = [entry.key for entry in folder.place.files()]
    tidying = Tidying(folder, every_s=0.0)
    tidying.tick()
    tidying.close()
    assert [entry.key for entry in folder.place.files()] == before


def test_it_looks_once_in_a_while(tale, tmp_path):
    folder = begin(tale, tmp_path)
    for part in pieces(tale, 5):
        write(folder, part)
    tidying = Tidying(folder, min_files=2, every_s=3600.0)
    tidying.tick()
    assert tidying._process is None
