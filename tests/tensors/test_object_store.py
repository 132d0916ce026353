"""Tensors of a job in an object store: the same, through its client."""

from __future__ import annotations

import obstore.store
import torch
from safetensors.torch import save as safetensors

from holter.store.job import JobFolder
from holter.store.objects import ObjectPlace
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
