"""Converts records into columns of the tables `spans` and `scalars`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from holter.agent.drain.journal import Process, RecordedEvent, SpoolFacts
from holter.schema.phases import Mode, Phase
from holter.schema.record import MAX_SCALAR_STEP, scalar_duration, scalar_step

if TYPE_CHECKING:
    from collections.abc import Collection

    from holter.agent.drain.clock import Clock
    from holter.store.parquet.columns import Columns

Part = tuple[Process, int, NDArray[Any]]
"""A process, the index of one of its threads, and records of that thread."""


@dataclass(slots=True)
class PolledRows:
    """What one poll of a drain found."""

    spans: Columns = field(default_factory=dict)
    scalars: Columns = field(default_factory=dict)
    events: list[RecordedEvent] = field(default_factory=list)
    rows: int = 0
    more: bool = False
    """More is waiting: poll again soon."""


_ROUND = 100
"""Times are kept to 100 ns: half the bytes, and a clock reading costs that much."""
_PHASES = [""] * 256
for _phase in Phase:
    _PHASES[_phase] = _phase.name.lower()
TRAINING = np.zeros(256, bool)
"""By phase: whether only a running training begins it; an ended one may still write a checkpoint."""
TRAINING[[Phase.STEP, Phase.DATA_LOADING, Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER, Phase.EVAL]] = True
_SOUND = np.array([text != "" for text in _PHASES])
_MODES = [Mode(number).name.lower() if number in set(Mode) else "global" for number in range(256)]
_SCALARS = ("time", "rank", "step", "mode", "name", "value")


class RowEncoder:
    """Converts records, and keeps the names of each process as codes."""

    def __init__(self, clock: Clock, facts: SpoolFacts) -> None:
        self._clock = clock
        self._facts = facts
        self._codes: dict[str, tuple[int, NDArray[Any]]] = {}

    def columns(self, parts: list[Part], ranks: list[int]) -> tuple[Columns, Columns]:
        """Return the columns of spans and those of scalars (may be empty), without damaged records.

        `ranks` are those of the parts, of which there is at least one.
        """
        records = np.concatenate([part for _, _, part in parts])
        sizes = [len(part) for _, _, part in parts]
        wall = records["begin"] + self._clock.offset
        begin = wall - wall % _ROUND
        # Begin and end are rounded the same way, so that spans nest as they did.
        end = wall + records["duration"]
        columns: dict[str, NDArray[Any]] = {
            "time": begin,
            "duration": np.maximum(end - end % _ROUND - begin, 0),
            "rank": np.repeat(np.array(ranks, np.int32), sizes),
            "worker": np.repeat(np.array([process.worker for process, _, _ in parts], np.int16), sizes),
            "thread": np.repeat(np.array([thread for _, thread, _ in parts], np.int16), sizes),
            "step": records["step"],
            "mode": records["mode"],
            "phase": records["phase"],
            "name": np.concatenate([self._names(process, part["name"]) for process, _, part in parts]),
            "value": records["value"],
        }
        texts = {"mode": _MODES, "phase": _PHASES, "name": self._facts.texts}
        scalar = records["phase"] == Phase.SCALAR
        sound = _SOUND[records["phase"]] & (records["begin"] > 0) & (records["duration"] >= 0) & (end >= wall)
        of_scalars = {name: columns[name] for name in _SCALARS} | {"step": _scalar_steps(records)}
        scalars = _where(of_scalars, scalar, texts) if scalar.any() else {}
        return _where(columns, sound & ~scalar, texts), scalars

    def forget(self, process: Process) -> None:
        """Give up what is remembered of a process."""
        self._codes.pop(process.key, None)

    def _names(self, process: Process, ids: NDArray[Any]) -> NDArray[Any]:
        """Turn ids of names into codes of `Facts.texts`; an id that was never named has the empty text."""
        known = self._codes.get(process.key)
        size = max(max(process.names, default=0), int(ids.max())) + 1
        if known is None or known[0] != len(process.names) or len(known[1]) < size:
            array = np.zeros(size, np.int32)
            for number, code in process.names.items():
                array[number] = code
            known = self._codes[process.key] = (len(process.names), array)
        codes: NDArray[Any] = known[1][ids]
        return codes


def _scalar_steps(records: NDArray[Any]) -> NDArray[np.int64]:
    """Return the steps of SCALAR records; -1 where a damaged record has an impossible one."""
    above = records["duration"]
    possible = (above >= 0) & (above <= scalar_duration(MAX_SCALAR_STEP))
    return np.where(possible, scalar_step(records["step"].astype(np.int64), above), -1)


def own_steps(parts: list[Part], processes: Collection[Process]) -> list[Part]:
    """Leave out the steps of processes that only evaluate what others train: a step is one of a training."""
    found = []
    for process, _, records in parts:
        steps = records["phase"] == Phase.STEP
        process.trains = process.trains or bool((steps & (records["mode"] == Mode.TRAIN)).any())
    trained = any(one.trains for one in processes)
    for process, thread, records in parts:
        inferred = (records["phase"] == Phase.STEP) & (records["mode"] == Mode.PREDICT)
        drop = trained and not process.trains and inferred.any()
        found.append((process, thread, records[~inferred] if drop else records))
    return found


def _where(columns: dict[str, NDArray[Any]], mask: NDArray[Any], texts: dict[str, list[str]]) -> Columns:
    """Keep the rows that a mask selects; text becomes pairs of codes and values."""
    return {name: (c[mask], texts[name]) if name in texts else c[mask] for name, c in columns.items()}
