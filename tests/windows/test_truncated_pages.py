"""A job whose files of the recorder are truncated ends as it would have, and says what is missing."""

from __future__ import annotations

import sys

from tests.jobs.starting import holter
from tests.windows.test_live import Running, events

TRAINING = """
import glob, os, pathlib, time
import holter
while not pathlib.Path("enough").exists():
    with holter.step():
        time.sleep(0.002)
    if pathlib.Path("spoil").exists():
        for path in glob.glob(os.environ["HOLTER_SPOOL"] + "/*.*"):
            if path.endswith((".orders", ".head", ".seg")):
                os.truncate(path, 0)
        pathlib.Path("spoil").unlink()
"""


def test_the_job_goes_on_and_says_so(tmp_path):
    (tmp_path / "train.py").write_text(TRAINING)
    running = Running(tmp_path, sys.executable, "train.py", options=("--no-rules",))
    try:
        running.until(running.trained)
        (tmp_path / "spoil").touch()
        running.until(lambda: not (tmp_path / "spoil").exists())
        holter("profile", "long", "--count", "2", "--python", "cprofile", "--store", str(tmp_path / "jobs"))
        running.enough()
    finally:
        if running.process.poll() is None:
            running.process.terminate()
        running.process.wait(120)
        running.process.stdout.close()
    faults = [one for one in events(running, "fault") if "truncated" in str(one["detail"])]
    assert len(faults) == 1
