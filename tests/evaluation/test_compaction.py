"""Small files of a running job are merged beside it, and nobody who reads it notices."""

from __future__ import annotations

import time

import pytest
from tests.evaluation.jobs import begin, end, finished, pieces, write
from tests.generated.story import story

from holter.evaluation import choose, documents, evaluate
from holter.evaluation.compaction import BackgroundCompaction
from holter.store.trial import Trial

RULES = documents(choose(["DataloaderBottleneck", "OverallSystemUsage", "LowGPUUtilization"]))


@pytest.fixture(scope="module")
def tale():
    return story("before", ranks=1, cores=1, steps=80, samples=400)


def test_the_evaluator_judges_the_same_while_files_are_merged(tale, tmp_path, monkeypatch):
    monkeypatch.setattr(BackgroundCompaction.__init__, "__kwdefaults__", {"min_files": 8, "every_s": 0.0})
    whole = evaluate(finished(tale, tmp_path / "whole", RULES))
    folder = begin(tale, tmp_path / "live", RULES)
    parts = pieces(tale, 24)
    merged = []

    def wait(_seconds):
        if len(parts) in (4, 12):
            # Enough files lie there: wait for the merge that has begun, and go on with what it left.
            deadline = time.monotonic() + 120
            while len(folder.place.files("samples")) >= 24 - len(parts) and time.monotonic() < deadline:
                time.sleep(0.05)
            merged.append(len(folder.place.files("samples")) < 24 - len(parts))
        if parts:
            write(folder, parts.pop(0))
        else:
            end(folder, tale)

    live = evaluate(folder, live=True, wait=wait)
    assert merged == [True, True]
    assert [(r["issues"], r["details"], r["evaluations"]) for r in live.rules] == [
        (r["issues"], r["details"], r["evaluations"]) for r in whole.rules
    ]
    assert Trial(folder).table("samples").rows == tale.samples.rows


def test_few_files_are_left_alone(tale, tmp_path):
    folder = begin(tale, tmp_path)
    for part in pieces(tale, 5):
        write(folder, part)
    before = [entry.key for entry in folder.place.files()]
    tidying = BackgroundCompaction(folder, every_s=0.0)
    tidying.tick()
    tidying.close()
    assert [entry.key for entry in folder.place.files()] == before


def test_it_looks_once_in_a_while(tale, tmp_path):
    folder = begin(tale, tmp_path)
    for part in pieces(tale, 5):
        write(folder, part)
    tidying = BackgroundCompaction(folder, min_files=2, every_s=3600.0)
    tidying.tick()
    assert tidying._process is None
