"""Reads what one job recorded of its tensors: saved tensors, numbers, and fingerprints of the sentinel."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import numpy as np

from holter.analysis.events import details
from holter.analysis.tensors.parts import whole
from holter.rules.patterns.sentinel import prints
from holter.store.raw_tensors import DamagedRaw
from holter.store.saved_tensors import SavedTensors

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from holter.store.trial import Trial
    from holter.views.document.types.job import SkippedFile

TensorKey = tuple[int, str, int, str]
"""Step, mode, rank and name; the rank is -1 for a tensor that ranks share."""


class TensorRecording:
    """What one job recorded of its tensors, read once."""

    def __init__(self, trial: Trial) -> None:
        self.name = trial.folder.name
        self._trial = trial
        self._damaged: dict[str, str] = {}
        rows = whole(trial.table("tensors"))
        self.rows = rows.sorted("time") if rows.rows else rows
        self.scalars = trial.table("scalars")
        self.raw = SavedTensors(trial.folder)
        self.raw.refresh()
        self.contents = _contents(trial)
        self.modules = 0
        self.seen: dict[tuple[int, int], dict[str, tuple[int, int]]] = {}
        """Step and rank → fingerprints of each parameter and its gradient, as the sentinel recorded them."""
        self.batches: dict[tuple[int, int, str], int] = {}
        """Step, rank and name → the fingerprint of a batch."""
        self._read_sentinel(trial)

    def _read_sentinel(self, trial: Trial) -> None:
        names: dict[int, list[str]] = {}
        for row, detail in details(trial.table("events", where="kind = 'sentinel'"), "sentinel"):
            if "step" not in detail:
                continue
            rank = row["rank"]
            known = names[rank] = detail.get("names", names.get(rank, []))
            found = zip(known, prints(detail), prints(detail, "gradients"), strict=False)
            self.seen[detail["step"], rank] = {name: (weight, gradient) for name, weight, gradient in found}
            self.modules = max([self.modules, *(one["modules"] for one in detail.get("models", ()))])
            of_step: dict[tuple[int, int], int] = defaultdict(int)
            for loader, step, print_, *_ in detail.get("batches", ()):
                again = of_step[loader, step]
                of_step[loader, step] += 1
                name = f"batch of loader {loader}" + (f", number {again}" if again else "")
                self.batches.setdefault((step, rank, name), print_)

    def elements(self, key: TensorKey) -> tuple[str, NDArray[Any]] | None:
        """Return the type and elements of a tensor that is saved whole; `skipped` names a damaged file."""
        try:
            raw = self.raw.raw(key[:3], key[3])
            return None if raw is None or raw.dtype == "text" else (raw.dtype, raw.array())
        except DamagedRaw as damage:
            self._damaged[damage.file] = str(damage)
            return None

    @property
    def skipped(self) -> list[SkippedFile]:
        """Files and documents that could not be read so far."""
        found = {one["file"]: one["why"] for one in (*self._trial.skipped, *self.raw.skipped)}
        found |= self._damaged
        return [{"file": file, "why": why.removeprefix(f"{file}: ")} for file, why in sorted(found.items())]

    @property
    def ranks(self) -> set[int]:
        """Ranks that recorded tensors or numbers."""
        return set(np.unique(self.rows["rank"]).tolist()) | set(np.unique(self.scalars["rank"]).tolist())


def _contents(trial: Trial) -> dict[TensorKey, int]:
    """Return a hash of the elements of each tensor that is stored element by element."""
    # A hash of two arguments is linear in each, so that a sum of such hashes would ignore the order.
    element = "hash(xor(hash(value), position::UBIGINT))"
    query = (
        f"SELECT step, mode, rank, name, time, bit_xor({element}) AS print FROM tensor_values "  # noqa: S608
        "WHERE kind = 'value' GROUP BY ALL ORDER BY time"
    )
    found = trial.sql(query)
    keys = zip(*(found[column].tolist() for column in ("step", "mode", "rank", "name")), strict=True)
    return dict(zip(keys, found["print"].tolist(), strict=True))
