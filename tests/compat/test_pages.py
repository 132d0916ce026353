"""The code of the pages for people who come from SageMaker, or analyze in Python, run as it stands there."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest
from tests.compat import profiler_output as made
from tests.evaluation.jobs import finished
from tests.generated.story import story

PAGES = Path(__file__).parents[2] / "docs/how-to"
BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)
HERE = re.compile(r"\| `(holter\.compat\.smdebug[\w.]+)` \|")
NAMED = re.compile(r"\| `smdebug([\w.]+)`(?: \(([^)]*)\))? \|")


def test_every_path_of_the_table_is_there():
    text = (PAGES / "come-from-sagemaker.md").read_text()
    paths = HERE.findall(text)
    assert len(paths) == 18
    for (there, names), here in zip(NAMED.findall(text), paths, strict=True):
        assert here == f"holter.compat.smdebug{there}"
        module = import_module(here)
        assert all(hasattr(module, name) for name in re.findall(r"`(\w+)`", names))


@pytest.mark.parametrize(("page", "blocks"), [("come-from-sagemaker.md", 6), ("analyze-in-python.md", 2)])
def test_the_code_of_the_page_runs(page, blocks, tmp_path, monkeypatch, capsys):
    pytest.importorskip("pandas", reason="frames need pandas")
    made.write(tmp_path / "profiler-output")
    told = story("before", ranks=1, cores=2, steps=50, samples=100)
    finished(told, tmp_path / "holter-jobs", name="my-job")
    monkeypatch.chdir(tmp_path)
    found = BLOCK.findall((PAGES / page).read_text())
    assert len(found) == blocks
    scope: dict = {}
    for code in found:
        exec(compile(code, page, "exec"), scope)
    assert "training_loop_start" in capsys.readouterr().out or page != "come-from-sagemaker.md"
