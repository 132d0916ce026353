"""Functions of the recorder, and of nobody else, are left out of what torch's profiler saw."""

from __future__ import annotations

from pathlib import Path

import pytest

from holter.agent.drain.windows import operators

RECORDER = Path(operators.__file__).parents[3] / "recorder"


@pytest.mark.parametrize(
    ("name", "ours"),
    [
        ("holter/recorder/spool/files.py(39): Spool", True),
        (f"{RECORDER}/spool/files.py(39): Spool", True),
        ("holter/recorder/mine.py(1): mine", False),
        ("/elsewhere/holter/recorder/spool/files.py(39): Spool", False),
        ("recorder/spool/files.py(39): Spool", False),
        ("aten::add", False),
    ],
)
def test_only_files_of_the_recorder_are_left_out(name, ours):
    # A script's own files may lie in a folder that is called like ours, and the profiler shortens paths by
    # `sys.path`, on which holter is not where it lives in an environment of its own.
    assert operators.is_ours(name) is ours
