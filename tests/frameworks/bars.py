"""Runs a training with a progress bar under `holter run` on a terminal of 80 columns."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from tests.frameworks.trained import TRAININGS
from tests.jobs.terminals import Terminal


def undisturbed(python: Path, bar: str, begins: str, ends: str, folder: Path) -> None:
    """Check that a bar stays on its line above the live line of holter, and that nothing of the latter stays.

    `begins` is a pattern of how the line of the bar begins, `ends` what it holds at the end.
    """
    command = [sys.executable, "-m", "holter", "run", "--store", str(folder / "store"), "--"]
    command += [str(python), str(TRAININGS / "progress_bars.py"), bar]
    shown = Terminal(command, {"TERM": "xterm", "PYTHONWARNINGS": "ignore"}, columns=80)
    shown.watch(lambda rows: False, limit_s=180)
    assert shown.code == 0, shown.text
    both = [rows for rows in shown.screens if rows[-1].startswith("holter \u00b7 step ")]
    both = [rows for rows in both if any(re.match(begins, text.lstrip()) for text in rows[:-1])]
    assert both, shown.screens[-3:]
    for rows in both:
        if any("stopped:" in text for text in rows):
            continue  # Lightning itself draws the full bar again below this message
        assert sum(bool(re.match(begins, text.lstrip())) for text in rows) == 1, rows
        assert not any("holter \u00b7" in text for text in rows[:-1]), rows
    assert any(ends in text for text in shown.text), shown.text
    assert "the end" in shown.text
    assert not any(text.startswith("holter \u00b7 ") for text in shown.text), shown.text
