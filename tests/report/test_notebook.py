"""The notebook of the report: it runs as it is, by the library alone, and shows what the report shows."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from tests.evaluation.jobs import finished
from tests.generated.story import story

from holter.report.formats import report
from holter.store.trial import Trial
from holter.views.figures import draw, names
from holter.views.reading import Reading

nbclient = pytest.importorskip("nbclient", reason="nbclient runs notebooks")
nbformat = pytest.importorskip("nbformat", reason="nbclient runs notebooks")
SOURCE = str(Path(__file__).parents[2] / "src")


@pytest.mark.filterwarnings("ignore")  # of the notebook's own machinery
def test_it_runs(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([SOURCE, os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setenv("JUPYTER_PLATFORM_DIRS", "1")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    job = finished(story("before", ranks=2, cores=2, steps=60, samples=120), tmp_path / "store")
    text = report(Trial(job), "ipynb")
    notebook = nbformat.reads(text, as_version=4)
    nbformat.validate(notebook)
    done = nbclient.NotebookClient(
        notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
    code = [cell for cell in done.cells if cell.cell_type == "code"]
    shown = {cell.source: "".join(map(_html, cell.outputs)) for cell in code}
    assert all(cell.outputs for cell in code), "a cell shows nothing"
    assert "data_pipeline" in next(html for source, html in shown.items() if "diagnose" in source)
    drawn = [name for name in names() if not isinstance(draw(name, Reading(Trial(job))), str)]
    assert len(drawn) > 4
    for name in drawn:
        (cell,) = (cell for cell in code if cell.source == f"job.figure({name!r})")
        assert "<svg" in cell.outputs[0]["data"]["image/svg+xml"]
    assert json.loads(text)["cells"][1]["outputs"] == [], "what is written has no outputs of its own"


def _html(output):
    assert output.output_type != "error", output
    data = output.get("data", {})
    return str(data.get("text/html") or data.get("text/plain", ""))
