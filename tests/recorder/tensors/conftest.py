"""Train in this very process while tensors are saved into a spool."""

from __future__ import annotations

import math

import pytest
import torch
from tests.recorder import reading as records
from tests.recorder.tensors.reading import Saved, saved

from holter.recorder.tensors.requests import requests


class Training:
    """A recorded stretch of this process."""

    def __init__(self, session, spool) -> None:
        self.session = session
        self.spool = spool

    def end(self) -> Saved:
        self.session.close()
        process = records.only(self.spool)
        assert not process.facts("fault"), process.facts("fault")
        return saved(self.spool)

    def scalars(self, name: str) -> dict[int, float]:
        return {s.step: s.value for s in records.only(self.spool).spans("scalar") if s.name == name}

    def facts(self, kind: str) -> list:
        return records.only(self.spool).facts(kind)


@pytest.fixture
def watch(start, spool):
    """Begin to record, saving what is asked for; the seed is fixed."""

    def begin(*save: str) -> Training:
        session = start()
        session.attach("pytorch")
        session.watch(requests(save))
        torch.manual_seed(0)
        return Training(session, spool)

    return begin


def finite(values) -> bool:
    return all(math.isfinite(value) for value in values)
