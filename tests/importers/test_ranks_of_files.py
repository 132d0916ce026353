"""Of which rank each file of a folder is: by what it says, its name, or its place; and which are read."""

from __future__ import annotations

import gzip
import json
import os

import pytest

from holter.importers import UnreadableError

OPERATOR = {"ph": "X", "cat": "cpu_op", "name": "op", "pid": 1, "tid": 1, "ts": 10, "dur": 5}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "run").mkdir()
    return tmp_path / "run"


@pytest.mark.parametrize(
    ("names", "ranks"),
    [
        (["trace_2.json", "trace_10.json", "trace_1.json"], [1, 2, 0]),
        (["1712-TP-10.trace.json", "1712-TP-9.trace.json"], [1, 0]),
        (["rank3_node1.json", "rank1_node1.json"], [3, 1]),
        (["node0_gpu1.json", "node1_gpu0.json", "node1_gpu1.json"], [0, 1, 2]),
        (["gpu3.json", "gpu1.json"], [3, 1]),
        # As PyTorch's handler calls them: host, process, time; of a process all files are of one rank.
        (["gpu-node-07_52.169421234501.pt.trace.json", "gpu-node-07_51.169421234501.pt.trace.json"], [1, 0]),
        (["a-worker-3_9.1694212345001.pt.trace.json", "a-worker-3_9.1694212345902.pt.trace.json"], [0, 0]),
        (["worker3.1694212345001.pt.trace.json", "rank_2.1694212345001.pt.trace.json"], [3, 2]),
    ],
)  # fmt: skip
def test_names_and_places(names, ranks, written, imported, folder):
    for name in names:
        written([OPERATOR], f"run/{name}")
    _, report = imported(folder)
    assert [report.ranks[str(folder / name)] for name in names] == ranks


def test_lists_of_something_else_take_no_rank(written, imported, folder):
    written(b"[1, 2, 3]", "run/a_list.json")
    written([OPERATOR], "run/trace.json")
    _, report = imported(folder)
    assert report.ranks == {str(folder / "trace.json"): 0}


def test_a_trace_in_two_forms_is_read_once_and_said(written, imported, folder):
    """JAX writes a trace as XPlane, for TensorBoard's viewer and for Perfetto's, side by side."""
    plane = b"\x0a\x05\x12\x03abc"
    written(plane, "run/host.xplane.pb")
    written([OPERATOR], "run/host.trace.json.gz")
    written([OPERATOR], "run/perfetto_trace.json.gz")
    written([OPERATOR], "run/rank1.json")
    (folder / "rank1.json.gz").write_bytes(gzip.compress(json.dumps([OPERATOR]).encode()))
    tables, report = imported(folder)
    assert len(tables.table("operators")) == 1
    said = {file.rpartition("/")[2]: [*why] for file, why in report.skipped.items()}
    assert said == {
        "host.trace.json.gz": ["host.xplane.pb beside it is the same trace"],
        "perfetto_trace.json.gz": ["host.xplane.pb beside it is the same trace"],
        "rank1.json.gz": ["rank1.json beside it is the same trace"],
    }


def test_a_pipe_is_not_waited_for(imported, folder):
    os.mkfifo(folder / "trace.json")
    with pytest.raises(UnreadableError, match="no file"):
        imported(folder / "trace.json")


def test_packed_traces_of_a_folder_are_told(written, imported, folder):
    written([OPERATOR], "run/trace.json")
    for name in ("ranks.tar.gz", "rank1.json.zst", "run.nsys-rep", "model.pt"):
        (folder / name).write_bytes(b"\x1f\x8b0")
    _, report = imported(folder)
    assert sorted(file.rpartition("/")[2] for file in report.skipped) == [
        "rank1.json.zst",
        "ranks.tar.gz",
        "run.nsys-rep",
    ]
    (folder / "run.sqlite").write_bytes(b"what it was exported to")
    _, report = imported(folder)
    assert not [file for file in report.skipped if file.endswith("nsys-rep")]
