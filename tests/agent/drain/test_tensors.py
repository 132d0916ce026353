"""The agent brings tensor files into the store, also those of a process that was killed in the middle."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
import textwrap
from pathlib import Path

import duckdb
import pytest

from holter.agent.drain.clock import Clock
from holter.agent.drain.drain import Drain
from holter.agent.drain.tensors import TensorDrain
from holter.store.job import create
from holter.store.writer import Writer

SOURCE = Path(__file__).parents[3] / "src"

TABLES = {"tensors": "tensors", "values": "tensor_values"}
SCRIPT = """
import os, signal, sys
sys.path.insert(0, {source!r})
from holter.recorder import session as sessions
from holter.recorder.tensors.collections import TensorInfo
from holter.recorder.tensors.requests import requests
from holter.recorder.tensors.writing import TensorFiles

session = sessions.Session({spool!r})
session.install()
session.journal("rank", {{"rank": 3, "world_size": 4}})
files = TensorFiles(session, file_bytes={bytes})
files.describe(requests(["weights@2:raw", "/^b/@5"]))
{body}
"""

BODY = """
for step in range(6):
    for name in ("a.weight", "b.weight"):
        number = files.id(TensorInfo(name, "parameter", "weight"))
        files.row(1000 + step, step, 1, number, (4, 1, 0, 0, 2, 0), (1e300, *[step] * 7), (1, 2, 3), -7, 1)
        files.values(1000 + step, step, 2, number, 3, __import__("struct").pack("<2d", step, 5))
    files.flush()
    files.save(1000 + step, step, 1, [("a.weight", "uint8", (4,), b"1234")])
"""


class Spool:
    """A spool that a script wrote, and a job to bring it into."""

    def __init__(
        self, tmp_path: Path, body: str, *, killed: bool = False, limit: int = 1 << 20, file_bytes: int = 700
    ) -> None:
        self.path = tmp_path / "spool"
        self.path.mkdir()
        kill = "os.kill(os.getpid(), signal.SIGKILL)" if killed else ""
        text = SCRIPT.format(
            source=str(SOURCE), spool=str(self.path), bytes=file_bytes, body=textwrap.dedent(body) + kill
        )
        done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)
        assert done.returncode == (-9 if killed else 0), done.stderr
        self.folder = create(
            str(tmp_path / "store"), "job", command=["x"], interval_ms=500, rules=[], now_ns=1
        )
        self.clock = Clock.now()
        self.drain = Drain(self.path, self.clock)
        self.writer = Writer(self.folder, "n 1")
        self.tensors = TensorDrain(self.drain, self.writer, raw_limit=limit)

    def poll(self) -> list:
        self.drain.poll(final=True)
        events = self.tensors.poll(final=True)
        self.writer.flush()
        return events

    def query(self, text: str) -> list:
        folder = self.folder.place.path
        tables = {name: f"read_parquet('{folder}/{table}/*/*.parquet')" for name, table in TABLES.items()}
        return duckdb.sql(text.format(**tables)).fetchall()


@pytest.mark.parametrize("killed", [False, True])
def test_rows_values_and_whole_tensors_arrive(tmp_path, killed):
    spool = Spool(tmp_path, BODY, killed=killed)
    assert spool.poll() == []
    columns = "step, name, rank, mode, state, role, zeros, nan, mean, min, fingerprint, delta_max"
    rows = spool.query(f"select {columns} from {{tensors}} order by all")
    assert len(rows) == 12
    assert rows[3] == (1, "b.weight", 3, "train", "frozen", "weight", 2, 1, 1.0, float("inf"), -7, 3.0)
    assert spool.query("select time from {tensors} where step = 0")[0][0] == 1000 + spool.clock.offset
    assert spool.query("select step, name, mode, kind, position, value from {values} order by all")[:2] == [
        (0, "a.weight", "eval", "histogram", 0, 0.0),
        (0, "a.weight", "eval", "histogram", 1, 5.0),
    ]
    folder = spool.folder.place.path / "tensors-raw" / "node=n%201" / "rank=3"
    assert sorted(path.name for path in folder.iterdir()) == [
        f"{step:09d}-train.safetensors" for step in range(6)
    ]
    data = (folder / "000000002-train.safetensors").read_bytes()
    header = json.loads(data[8 : 8 + struct.unpack_from("<Q", data)[0]])
    assert set(json.loads(header["__metadata__"].pop("crc32"))) == {"a.weight"}
    assert header["__metadata__"] == {"step": "2", "mode": "train", "time": "1002"}
    document = json.loads((spool.folder.place.path / "tensors.json").read_text())
    assert (document["schema"], document["modes"], document["ranks"]) == (1, ["eval", "train"], [0, 1, 2, 3])
    assert document["collections"]["weights"]["tensors"] == ["a.weight", "b.weight"]
    assert document["collections"]["/^b/@5"]["tensors"] == ["b.weight"]
    assert document["collections"]["weights"]["schedule"]["train"]["interval"] == 2
    assert document["collections"]["weights"]["raw"] is True
    assert {path for path, _ in spool.drain.spent() if path.suffix == ".tensors"} == set(
        spool.path.glob("*.tensors")
    )


def test_a_row_takes_few_bytes(tmp_path):
    body = """
    import random
    for step in range(200):
        for each in range(40):
            number = files.id(TensorInfo(f"layers.{each}.weight", "parameter", "weight"))
            numbers = [random.gauss(0, 1) for _ in range(8)]
            files.row(10**9 + step * 10**7 + each, step, 1, number, (4096, 0, 0, 0, 0, 0), numbers)
        files.flush()
    """
    spool = Spool(tmp_path, body, file_bytes=4 << 20)
    spool.poll()
    assert spool.query("select count(*) from {tensors}") == [(8000,)]
    assert sum(entry.size for entry in spool.folder.place.files("tensors")) / 8000 <= 40


def test_what_is_cut_costs_itself_only(tmp_path):
    spool = Spool(tmp_path, BODY)
    first, *_, last = sorted(spool.path.glob("*.tensors"), key=lambda path: int(path.name.split(".")[1]))
    first.write_bytes(first.read_bytes()[:-5])
    last.write_bytes(last.read_bytes() + b"\\0" * 40)
    spool.poll()
    steps = {step for (step,) in spool.query("select distinct step from {tensors}")}
    assert steps == set(range(6))


def test_more_whole_tensors_than_allowed_are_dropped_and_said(tmp_path):
    spool = Spool(tmp_path, BODY, limit=500)
    (event,) = spool.poll()
    assert (event.kind, event.name) == ("dropped", "tensors")
    assert event.detail["files"] == spool.tensors.dropped["files"] > 0
    kept = list((spool.folder.place.path / "tensors-raw").rglob("*.safetensors"))
    assert len(kept) + event.detail["files"] == 6
    assert sum(path.stat().st_size for path in kept) <= 500
    assert not list(spool.path.glob("*.safetensors"))
