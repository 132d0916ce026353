"""A few changed files for each reader; `benchmarks/fuzz.py` reads many more."""

from __future__ import annotations

import random
import subprocess
import sys
import textwrap

import pytest
from tests.fuzz.batches import run
from tests.fuzz.watching import changed

NAMES = ("Chrome trace", "store (JSON and Parquet)")
"""Those that meet most files of others; each costs a process."""


@pytest.mark.parametrize("reader", NAMES)
def test_no_changed_file_harms(reader, tmp_path):
    found = run(reader, 1, 12, tmp_path)
    assert not found.findings
    assert found.inputs == 12


def test_changes_are_the_same_for_the_same_seed():
    text = b"x" * 1000
    assert changed(text, random.Random(5)) == changed(text, random.Random(5))
    assert len({changed(text, random.Random(seed)) for seed in range(20)}) > 15


def test_what_is_forbidden_is_noticed(tmp_path):
    code = f"""
    import os, pickle, subprocess, sys
    from pathlib import Path
    from tests.fuzz.watching import Watch
    watch = Watch(Path({str(tmp_path / "inside")!r}))
    watch.on = True
    open({str(tmp_path / "outside")!r}, "w").close()
    subprocess.run(["true"])
    pickle.loads(b"cos\\nsystem\\n.")
    watch.on = False
    print(len(watch.seen), *(text.split()[0] for text in watch.seen))
    """
    words = [sys.executable, "-c", textwrap.dedent(code)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    for noticed in ("open", "subprocess.Popen", "pickle.find_class"):
        assert noticed in done.stdout
