"""`holter report`: one file, replaced at once, never overwritten without `--force`."""

from __future__ import annotations

import json

import pytest

from .conftest import told


@pytest.fixture
def small(own_folder):
    told("before", cores=1, ranks=1, steps=40, samples=60)


def test_formats_and_where_they_go(holter, small, own_folder):
    answer = holter("report", "before")
    assert answer.code == 0
    assert answer.out == "before.html\n"
    assert (own_folder / "before.html").read_text().startswith("<!doctype html>")
    assert json.loads(holter("report", "before", "--format", "json", "-o", "-").out)["schema"] == 1
    holter("report", "before", "-o", "told.ipynb")
    assert json.loads((own_folder / "told.ipynb").read_text())["nbformat"] == 4


def test_a_file_that_is_there_is_kept(holter, small, own_folder):
    (own_folder / "before.html").write_text("mine")
    holter("report", "before").refused(64, "before.html", "--force")
    assert (own_folder / "before.html").read_text() == "mine"
    assert holter("report", "before", "--force").code == 0
    assert (own_folder / "before.html").read_text() != "mine"
    assert [path.name for path in own_folder.iterdir() if path.name.startswith(".")] == []


@pytest.mark.parametrize(
    ("words", "code", "part"),
    [
        (["before", "--format", "pdf"], 64, "html, ipynb, json"),
        (["befor-e"], 4, "before"),
        (["before", "-o", "no/such/folder/x.html"], 65, "cannot be written"),
    ],
)
def test_bad_input_is_one_line(holter, small, words, code, part):
    holter("report", *words).refused(code, part)
