"""Compaction of a running job bounds the number of files, however many rows each of them has."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from tests.store.strategies import new_job

from holter.store.compact import MAX_ROWS, compact
from holter.store.trial import Trial
from holter.store.writer import MAX_ROWS as ROWS_OF_A_FILE
from holter.store.writer import Writer


def test_files_of_many_rows_are_merged_while_the_job_runs(tmp_path: Path) -> None:
    folder = new_job(tmp_path)
    writer = Writer(folder, "n0")
    count = MAX_ROWS // ROWS_OF_A_FILE + 4  # fewer would fit into one file
    numbers = np.arange(ROWS_OF_A_FILE)
    for file in range(count):
        step = (numbers + file * ROWS_OF_A_FILE).astype(np.int32)
        texts = {name: (np.zeros(len(step), np.int8), ["x"]) for name in ("mode", "name")}
        rank = np.zeros(len(step), np.int32)
        writer.append("scalars", {"time": 1 + step, "rank": rank, "step": step, **texts, "value": step})
        assert writer.flush()
    assert writer.close()
    assert len(folder.place.files("scalars")) == count
    merged = compact(folder, min_files=count)
    assert 1 < merged < count
    assert len(folder.place.files("scalars")) == count - merged + 1
    trial = Trial(folder)
    asked = trial.sql("SELECT count(*) AS n, count(DISTINCT step) AS different FROM scalars")
    assert asked["n"].tolist() == asked["different"].tolist() == [count * ROWS_OF_A_FILE]
    assert compact(folder, min_files=count) == 0, "what is full is not written again"
