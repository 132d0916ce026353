"""Tensors of a job in an object store: the same, through its client."""

from __future__ import annotations

import obstore.store
import torch
from safetensors.torch import save as safetensors

from holter.store.job import JobFolder
from holter.store.layout import MANIFEST
from holter.store.objects import ObjectPlace
from holter.store.place import Entry
from holter.store.writer import Writer
from holter.tensors import Source, Tensors


def test_rows_and_raw_tensors(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = JobFolder(ObjectPlace(obstore.store.MemoryStore(), "", f"memory:{tmp_path}").below("job"), "job")
    folder.place.create()
    writer = Writer(folder, "n0")
    moment = {"time": [1], "rank": [0], "step": [0], "mode": ["train"]}
    writer.append("tensors", {**moment, "name": ["w"], "count": [2], "mean": [1.5]})
    assert writer.close(), writer.fault
    data = safetensors({"w": torch.tensor([1.0, 2.0])})
    folder.place.write("tensors-raw/node=n0/rank=0/000000000-train.safetensors", data)
    tensors = Tensors(Source(folder))
    assert tensors.names == ["w"]
    assert tensors["w"].value(0).tolist() == [1.0, 2.0]
    assert tensors["w"].reduction("sum", 0) == 3.0


class Counting(ObjectPlace):
    """Counts listings."""

    listings = 0

    def files(self, folder: str = "") -> list[Entry]:
        self.listings += 1
        return super().files(folder)


def test_values_need_no_listing(tmp_path, monkeypatch):
    # D31: the reference lists all events before each value that it reads.
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    place = Counting(obstore.store.MemoryStore(), "job/", f"memory:{tmp_path}/job")
    folder = JobFolder(place, "job")
    writer = Writer(folder, "n0")
    rows = {"time": [1, 2, 3], "rank": [0] * 3, "step": [0, 1, 2], "mode": ["train"] * 3, "count": [2] * 3}
    writer.append("tensors", {**rows, "name": ["w"] * 3, "mean": [1.5] * 3})
    assert writer.close(), writer.fault
    for step in range(3):
        data = safetensors({"w": torch.full((2,), float(step))})
        place.write(f"tensors-raw/node=n0/rank=0/{step:09d}-train.safetensors", data)
    place.write(MANIFEST, b'{"end": 4}')
    w = Tensors(Source(folder))["w"]
    assert w.steps() == [0, 1, 2]
    known = place.listings
    for step in range(3):
        assert w.value(step).tolist() == [step, step]
        assert w.reduction("mean", step) == 1.5
    assert place.listings == known
