"""Fifty windows in one process: what they installed is gone, and nothing has grown."""

from __future__ import annotations

import json
from pathlib import Path

from tests.recorder.reading import environment, only, run

WINDOWS = 50
LEFTOVERS = Path(__file__).with_name("leftovers.py")


def test_fifty_windows_leave_nothing_behind(tmp_path):
    done = run(tmp_path, LEFTOVERS.read_text(), env=environment(tmp_path, COUNT=WINDOWS))
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    before, after = found["before"], found["after"]
    assert after["hooks"] == before["hooks"] == found["clean"]
    assert after["observers"] == before["observers"] == [False, False]
    assert after["calls"] == before["calls"] > 100
    assert after["threads"] == before["threads"]
    assert after["descriptors"] == before["descriptors"]
    assert after["modules"] == before["modules"]
    assert after["wake"] == before["wake"] == 2**31 - 1
    # The numbers of fifty windows, but not what was found in them.
    assert after["objects"] - before["objects"] < 10 * WINDOWS
    assert after["rss_kb"] - before["rss_kb"] < 16_384
    assert after["peak_kb"] - before["peak_kb"] < 16_384
    process = only(tmp_path)
    windows = process.facts("window")
    assert len(windows) == WINDOWS + 12
    refused = [one["refused"] for one in windows if "refused" in one]
    assert all("pyinstrument" in why for why in refused)  # where it is not installed
    assert process.facts("fault") == []
