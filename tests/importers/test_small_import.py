"""What a small import leaves: two files, which say all that was said, and nothing that says nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from holter.importers import import_job
from holter.store import small, tiny
from holter.store.layout import MANIFEST, SMALL
from holter.store.trial import Trial


@pytest.mark.parametrize("count", [3, tiny.MOST_ROWS + 1, small.MOST_ROWS + 1])
def test_a_job_of_any_size_says_what_made_it(count, written, tmp_path):
    path = written([{"ph": "X", "name": "a", "ts": n, "dur": 1} for n in range(count)])
    folder, report = import_job([path], str(tmp_path / "store"), "job", now_ns=5)
    where = Path(folder.url)
    manifest = json.loads((where / MANIFEST).read_text())
    assert None not in manifest.values()
    magic = (where / SMALL).read_bytes()[:4] if count <= small.MOST_ROWS else None
    assert magic == (tiny.MAGIC if count <= tiny.MOST_ROWS else b"HSJ1" if magic else None)
    assert report.small == ("command" not in manifest) == (magic is not None)
    trial = Trial(folder)
    assert trial.manifest["command"] == ["holter", "import", str(path)]
    assert trial.manifest["name"] == "job"
    assert trial.imported["files"] == {str(path): "chrome-json"}
    assert sum(len(trial.table(table)) for table in report.rows) == sum(report.rows.values())
