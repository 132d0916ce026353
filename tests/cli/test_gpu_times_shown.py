"""Times on the GPU are shown beside those of the host: in the card, in JSON and in the report."""

from __future__ import annotations

import io
import json

import jsonschema
from tests.cli.conftest import PUBLISHED, told

from holter.cli.card import print_card
from holter.schema.table import Table
from holter.store.trial import Trial
from holter.store.writer import Writer
from holter.views.document.description import describe

PARTS = {"step": (40, 30), "forward": (12, 2), "backward": (24, 4)}
"""Milliseconds on the GPU and on the host."""


def test_times_on_the_gpu_are_shown(holter):
    folder, made = told("before", ranks=1, cores=8)
    parts = {part: {"gpu": gpu * 10**6, "host": host * 10**6} for part, (gpu, host) in PARTS.items()}
    detail = json.dumps({"steps": 1, "parts": parts, "left_out": 2})
    row = {"time": made.manifest["start"], "rank": 0, "kind": "gpu_time", "name": "", "detail": detail}
    writer = Writer(folder, "more")
    writer.append("events", Table.of("events", [{**row, "node": "more"}]).columns)
    writer.close()
    found = json.loads(holter("describe", folder.name, "--json").out)
    jsonschema.validate(found, PUBLISHED)
    times = found["gpu_times"]
    assert (times["steps"], times["left_out"], times["gpu_ms"], times["host_ms"]) == (1, 2, 40, 30)
    assert [(one["part"], one["gpu_ms"], one["pct"]) for one in times["parts"]] == [
        ("forward", 12, 30),
        ("backward", 24, 60),
        ("other", 4, 10),
    ]
    shown = " ".join(holter("describe", folder.name).out.split())
    assert "forward 12 ms on the GPU (30.0 %), 2 ms on the host" in shown
    raw = io.StringIO()
    print_card(describe(Trial(folder)), raw, "next", 100)
    card = " ".join(raw.getvalue().split())
    assert "40 ms a step on the GPU, in 1 measured step: backward 24 ms, forward 12 ms, other 4 ms" in card
    assert "all other times are those of the host" in card
    assert holter("report", folder.name, "-o", "report.html").code == 0
    with open("report.html", encoding="utf-8") as file:
        report = file.read()
    assert "On the GPU" in report
    assert "2 more steps could not be read" in report


def test_without_a_gpu_nothing_is_shown(holter):
    folder, _ = told("before", ranks=1, cores=8)
    assert json.loads(holter("describe", folder.name, "--json").out)["gpu_times"] is None
    assert "Parts of a step on the GPU" not in holter("describe", folder.name).out
