"""The code of the page on reading tensors, run as it stands there, on a job such as it speaks of."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
from tests.tensors.writing import Recording

from holter.cli import main

PAGE = Path(__file__).parents[2] / "docs/how-to/read-tensors.md"
PYTHON = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
BASH = re.compile(r"^```bash\n(.*?)^```", re.DOTALL | re.MULTILINE)


def test_the_page_as_written(tmp_path, monkeypatch, capsys):
    recording = Recording(tmp_path / "holter-jobs", "first")
    random = np.random.default_rng(0)
    for step in (0, 100, 200):
        weight = random.normal(size=(4, 3))
        recording.save(step, {"fc1.weight": weight}, raw=True)
        recording.save(step, {"gradient/fc1.weight": weight / 10, "loss": 1 / (1 + step)})
    recording.end()
    monkeypatch.chdir(tmp_path)
    programs = PYTHON.findall(PAGE.read_text())
    assert len(programs) == 6
    exec("\n".join(programs), {})
    said = capsys.readouterr().out
    assert "['gradient/fc1.weight'] [0, 100, 200] ['train'] [0]" in said
    assert "(4, 3) (4, 3) [0, 100, 200]" in said
    assert "was not saved: nothing was saved at step 101; saved next to it: 100 and 200" in said
    assert said.count("gradient/fc1.weight") > 3
    (command,) = BASH.findall(PAGE.read_text())
    assert main(command.splitlines()[0].split()[1:]) == 0
    assert list((tmp_path / "runs" / "train").glob("*tfevents*"))
