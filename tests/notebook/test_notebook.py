"""A notebook in a real kernel: magics, live output, cards, charts and tables."""

from __future__ import annotations

import os
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import nbclient
import nbformat
import pytest

SOURCE = str(Path(__file__).parents[2] / "src")
TRAINING = """
import time
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

class Slow(Dataset):
    def __len__(self):
        return 100_000

    def __getitem__(self, index):
        time.sleep(0.001)
        return torch.ones(16), index % 10

network = nn.Linear(16, 10)
optimizer = torch.optim.SGD(network.parameters())

def report(loss):
    begin = time.perf_counter()
    while time.perf_counter() - begin < 0.03:
        pass

def fit(seconds):
    until = time.monotonic() + seconds
    for batch, target in DataLoader(Slow(), batch_size=8):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(network(batch), target)
        loss.backward()
        optimizer.step()
        report(loss)
        if time.monotonic() > until:
            break
"""
PAGE = """
import urllib.request

shown = holter.ui("one")
with urllib.request.build_opener(urllib.request.HTTPCookieProcessor()).open(shown.address) as page:
    print(page.headers["content-security-policy"].partition("frame-ancestors ")[2])
    print("one" in page.read().decode())
shown
"""
CELLS = {
    "training": TRAINING,
    "load": "%load_ext holter",
    "again": "%holter start",
    "fit": "fit(14)",
    "stop": "%holter stop",
    "job": "import holter\njob = holter.open('latest')\njob",
    "loss": "job.plot.loss()",
    "steps": "job.plot.steps()",
    "times": "print(job.steps.to_pandas()['time'].dtype, job.events.to_arrow().schema.field('time').type)",
    "told": "print(job.diagnose()['verdict']['sentence'], job.summary()['own_code'])",
    "wrong": "%holter begin",
    "one": "%%holter --job one\nfit(3)\nprint('done')",
    "ui": PAGE,
    "link": "holter.open('one')",
    "jobs": "import os\nprint(sorted(os.listdir('holter-jobs'))[-1], holter.open('one').url)",
}


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """Return the executed cells by name."""
    folder = tmp_path_factory.mktemp("notebook")
    kept = dict(os.environ)
    for name in [name for name in os.environ if name.startswith("HOLTER_")]:
        del os.environ[name]
    os.environ["PYTHONPATH"] = os.pathsep.join([SOURCE, kept.get("PYTHONPATH", "")])
    os.environ["IPYTHONDIR"] = str(folder / "ipython")
    os.environ["OMP_NUM_THREADS"] = "1"
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(one) for one in CELLS.values()])
    try:
        done = nbclient.NotebookClient(
            notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(folder)}}
        ).execute()
    finally:
        os.environ.clear()
        os.environ.update(kept)
    nbformat.validate(done)
    return dict(zip(CELLS, done.cells, strict=True))


def text(cell):
    """Return everything that a cell shows as text."""
    return "\n".join(
        output.get("text") or output.get("data", {}).get("text/plain", "") for output in cell.outputs
    )


def test_loading_the_extension_records_the_following_cells(ran):
    assert "recording the following cells as job notebook-" in text(ran["load"])
    assert "recording already" in text(ran["again"])
    assert "steps" in text(ran["stop"])
    assert "cross_entropy" not in text(ran["stop"])


def test_a_running_cell_shows_the_job_in_one_display(ran):
    shown = [output for output in ran["fit"].outputs if output.output_type == "display_data"]
    assert len(shown) == 1
    assert "holter-card" in shown[0]["data"]["text/html"]
    assert "running" in shown[0]["data"]["text/plain"]


def test_a_job_shows_verdict_parts_and_numbers(ran):
    for name in ("stop", "job"):
        (found,) = (output["data"] for output in ran[name].outputs if "data" in output)
        assert "bar-of-parts" in found["text/html"]
        assert "data loading" in found["text/plain"]
        assert "steps a second" in found["text/plain"]


def test_charts_are_interactive_and_keep_a_picture(ran):
    for name in ("loss", "steps"):
        (found,) = (output["data"] for output in ran[name].outputs)
        assert "<script>" in found["text/html"]
        assert "data:image/svg+xml;base64," in found["text/html"]
        picture = ElementTree.fromstring(found["image/svg+xml"])
        assert picture.tag.endswith("svg")
        assert list(picture.iter("{http://www.w3.org/2000/svg}polyline"))


def test_tables_have_real_timestamps(ran):
    assert text(ran["times"]).split() == ["datetime64[ns,", "UTC]", "timestamp[ns,", "tz=UTC]"]


def test_the_cell_of_slow_code_is_named(ran):
    assert "cell 1" in text(ran["told"])
    assert "ipykernel" not in text(ran["told"])


def test_an_unknown_word_is_answered_with_the_valid_ones(ran):
    assert "%holter begin is not known" in text(ran["wrong"])
    assert "%holter stop" in text(ran["wrong"])


def test_one_cell_is_recorded_alone(ran):
    said = text(ran["one"])
    assert "done" in said
    assert "one ·" in said
    name, url = text(ran["jobs"]).split()
    assert name == "one"
    assert url.endswith("/holter-jobs/one")


def test_the_dashboard_is_shown_inside_and_linked(ran):
    printed, frame = ran["ui"].outputs
    assert printed["text"].splitlines() == ["http://localhost:* http://127.0.0.1:*", "True"]
    assert "<iframe" in frame["data"]["text/html"]
    (card,) = ran["link"].outputs
    assert "Open the dashboard" in card["data"]["text/html"]
