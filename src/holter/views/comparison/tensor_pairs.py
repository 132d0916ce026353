"""Pairs what two jobs recorded of the same tensors, step by step, in the order of computation."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from holter.analysis.tensors.differences import (
    of_elements,
    of_statistics,
    rms,
    types_of,
    types_of_numbers,
)
from holter.analysis.tensors.execution_order import (
    DISCRETE,
    Stage,
    TensorPlace,
    execution_order,
    place_of,
    place_of_number,
)
from holter.analysis.tensors.first_difference import Observation, is_noise, largest_of_modules
from holter.schema.tables import GRADIENT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from holter.analysis.tensors.differences import Why
    from holter.schema.table import Table
    from holter.views.comparison.tensor_recording import TensorKey, TensorRecording

_NUMBERS = re.compile(r"lr|grad_norm.*|loss_scale|.*(?:loss|rmse|mae|perplexity|ppl).*", re.IGNORECASE)
"""Numbers that a training computes. Others may be times or counts, which differ from run to run, or come from
sampled elements, which depend on the layout of a tensor in memory."""
_LEAST = 0.1
"""Smaller tensors of a module are compared with this share of its largest one."""
_ELEMENTS = 10_000
"""Assumed elements of the largest tensor of the forward pass, if none is saved."""
_LEAST_LOSS = 0.01
"""Smaller losses are compared with this share of the largest one of the job."""


class _Number(NamedTuple):
    value: float
    time: int


class Pairs:
    """What two jobs hold both, step by step."""

    def __init__(self, before: TensorRecording, after: TensorRecording) -> None:
        self.before, self.after = before, after
        divided = {
            str(name) for job in (before, after) for name in np.unique(job.rows["name"][job.rows["rank"] < 0])
        }
        self._rows = tuple(_keyed(job.rows, divided) for job in (before, after))
        common = [key for key in self._rows[0] if key in self._rows[1]]
        self._compare_rows(common)
        self._groups: dict[int, dict[tuple[str, int], list[int]]] = defaultdict(lambda: defaultdict(list))
        for at, (step, mode, rank, _) in enumerate(common):
            self._groups[step][mode, rank].append(at)
        self._keys = common
        self._numbers: dict[int, list[tuple[TensorKey, _Number, _Number]]] = defaultdict(list)
        self._largest: dict[str, float] = {}
        self._pair_numbers()
        self._seen: dict[int, list[int]] = defaultdict(list)
        for step, rank in before.seen.keys() & after.seen.keys():
            self._seen[step].append(rank)
        self._batches: dict[int, list[tuple[int, str]]] = defaultdict(list)
        for step, rank, name in before.batches.keys() & after.batches.keys():
            self._batches[step].append((rank, name))
        forward = {place.module for place in self._places if place.stage is Stage.FORWARD}
        self.depth = max(before.modules, after.modules, len({place.module for place in self._places}))
        self.spacing = self.depth / max(len(forward), 1)
        counts = [
            size
            for place, size in zip(self._places, self._counts, strict=True)
            if place.stage is Stage.FORWARD
        ]
        self.elements = max(counts, default=_ELEMENTS)

    @property
    def steps(self) -> list[int]:
        """Steps at which both jobs hold something, in order."""
        return sorted({*self._groups, *self._numbers, *self._seen, *self._batches})

    def names(self, job: int) -> set[str]:
        """Return the names of the saved tensors of the first job (0) or the second (1)."""
        return {key[3] for key in self._rows[job]}

    def saved_steps(self, job: int) -> set[int]:
        """Return the steps at which a job saved tensors."""
        return {key[0] for key in self._rows[job]}

    def stages(self) -> set[Stage]:
        """Return the stages of which both jobs saved tensors."""
        return {place.stage for place in self._places}

    def _compare_rows(self, common: list[TensorKey]) -> None:
        tables = [
            job.rows.where(np.array([rows[key] for key in common], np.int64))
            for job, rows in zip((self.before, self.after), self._rows, strict=True)
        ]
        before, after = (table.columns for table in tables)
        roles = before["role"].tolist()
        named = [(name, role) for (*_, name), role in zip(common, roles, strict=True)]
        known = {one: place_of(*one) for one in set(named)}
        self._places = [known[one] for one in named]
        sizes = rms(before)
        least, noise = np.zeros(len(common)), np.zeros(len(common), bool)
        grouped: dict[TensorKey, dict[int, float]] = defaultdict(dict)
        for at, (step, mode, rank, _) in enumerate(common):
            if self._places[at].kind in ("gradient", "parameter"):
                grouped[step, mode, rank, ""][at] = float(sizes[at])
        for group in grouped.values():
            for at, largest in largest_of_modules(group, self._places).items():
                least[at] = _LEAST * largest
                noise[at] = self._places[at].kind == "gradient" and is_noise(group[at], largest)
        losses = [at for at, place in enumerate(self._places) if place.stage is Stage.LOSS]
        if losses:
            least[losses] = _LEAST_LOSS * sizes[losses].max()
        self._same, self._apart = of_statistics(before, after, least)
        elements = before["count"] - before["nan"] - before["posinf"] - before["neginf"]
        with np.errstate(invalid="ignore", divide="ignore"):
            moved = before["delta_l2"] / np.sqrt(elements) / np.maximum(sizes, least)
        self._moved = np.where(np.isfinite(moved), moved, 0.0)
        self._sizes, self._sizes_after, self._least, self._noise = sizes, rms(after), least, noise
        self._types = list(zip(types_of(before).tolist(), types_of(after).tolist(), strict=True))
        self._roles, self._times = roles, before["time"].tolist()
        self._roles_after = after["role"].tolist()
        whole = (before["min"] == np.rint(before["min"])) & (before["max"] == np.rint(before["max"]))
        self._discrete = [
            role in DISCRETE and known for role, known in zip(roles, whole.tolist(), strict=True)
        ]
        self._shapes, self._counts = before["count"] != after["count"], before["count"].tolist()

    def _pair_numbers(self) -> None:
        found = [_numbers(job.scalars) for job in (self.before, self.after)]
        for (*_, name), one in found[0].items():
            if np.isfinite(one.value):
                self._largest[name] = max(self._largest.get(name, 0.0), abs(one.value))
        for key in found[0].keys() & found[1].keys():
            self._numbers[key[0]].append((key, found[0][key], found[1][key]))
        # A learning rate is recorded when it changes.
        rates = [{key: one for key, one in numbers.items() if key[3] == "lr"} for numbers in found]
        last = min((max((key[0] for key in numbers), default=-1) for numbers in found), default=-1)
        for key in sorted(rates[0].keys() ^ rates[1].keys()):
            ours, theirs = (_latest(numbers, key) for numbers in rates)
            if key[0] <= last and ours is not None and theirs is not None:
                self._numbers[key[0]].append((key, ours, theirs))

    def observations(self, step: int) -> list[Observation]:
        """Return what both jobs hold at a step, in the order of computation."""
        began: dict[str, int] = {}
        placed: list[tuple[Observation, int]] = []
        has_data = False
        ranks = set(self._seen.get(step, ()))
        groups = self._groups.get(step, {})
        for mode, rank in {**groups, **{("train", rank): [] for rank in ranks}}:
            listed = [self._of_row(at) for at in groups.get((mode, rank), ())]
            for at, one in zip(groups.get((mode, rank), ()), listed, strict=True):
                if one.place.stage is not Stage.STATE:
                    began[mode] = min(began.get(mode, self._times[at]), self._times[at])
                has_data |= one.place.stage is Stage.DATA and one.role != "labels"
            if mode == "train" and rank in ranks:
                listed += self._of_sentinel(step, rank, listed)
            positions = execution_order([one.place for one in listed])
            placed += zip(listed, positions, strict=True)
        after_all = len(placed)
        for number, (key, ours, theirs) in enumerate(
            sorted(self._numbers.get(step, ()), key=lambda one: one[1].time)
        ):
            began[key[1]] = min(began.get(key[1], ours.time), ours.time)
            placed.append((self._of_number(key, ours, theirs), after_all + number))
        if not has_data:
            placed += ((one, 0) for one in self._of_batches(step))

        def order(pair: tuple[Observation, int]) -> tuple[int, int, int, int, int]:
            one, position = pair
            state = one.place.stage is Stage.STATE
            return not state, 0 if state else began.get(one.mode, 0), one.place.stage, position, one.rank

        return [one for one, _ in sorted(placed, key=order)]

    def _of_row(self, at: int) -> Observation:
        key = self._keys[at]
        same, apart, types, by = bool(self._same[at]), float(self._apart[at]), self._types[at], "statistics"
        why: Why = ""
        if not np.isfinite(apart):
            why = "shape" if self._shapes[at] else "nonfinite"
        contents = [job.contents.get(key) for job in (self.before, self.after)]
        same = same and contents[0] == contents[1]
        raws = [job.elements(key) for job in (self.before, self.after)]
        if raws[0] is not None and raws[1] is not None:
            types = raws[0][0], raws[1][0]
            found = of_elements(raws[0][1], raws[1][1], float(self._least[at]))
            same, apart, why, by = found.same and types[0] == types[1], found.apart, found.why, "elements"
        if self._discrete[at] and not same and not why:
            apart = np.nan
        return Observation(
            *key, self._roles[at], self._places[at], by, same, apart, float(self._sizes[at]),
            float(self._sizes_after[at]), why, types, float(self._moved[at]), self._roles_after[at],
            bool(self._noise[at]),
        )  # fmt: skip

    def _of_number(self, key: TensorKey, ours: _Number, theirs: _Number) -> Observation:
        one, other = ours.value, theirs.value
        same = one == other or (np.isnan(one) and np.isnan(other))
        place, apart = place_of_number(key[3]), 0.0
        why: Why = ""
        if not same and np.isfinite(one) and np.isfinite(other):
            least = _LEAST_LOSS * self._largest[key[3]] if place.stage is Stage.LOSS else 0.0
            apart = abs(one - other) / max(abs(one), abs(other), least)
        elif not same:
            apart, why = np.inf, "nonfinite"
        kinds = types_of_numbers(np.array([one, other])).tolist()
        return Observation(
            *key, "number", place, "number", same, apart, one, other, why, (kinds[0], kinds[1])
        )  # fmt: skip

    def _of_sentinel(self, step: int, rank: int, listed: Iterable[Observation]) -> Iterator[Observation]:
        """Yield fingerprints of parameters and gradients without rows; of the others adapt `same`."""
        rows = {one.name: one for one in listed}
        ours, theirs = (job.seen[step, rank] for job in (self.before, self.after))
        for name, found in ours.items():
            if name not in theirs:
                continue
            for kind, one, other in zip(("", GRADIENT), found, theirs[name], strict=True):
                tensor, role = f"{kind}{name}", "grad" if kind else "weight"
                if tensor in rows:
                    rows[tensor].same &= one == other
                else:
                    yield _of_fingerprint(
                        (step, "train", rank, tensor), role, place_of(tensor, role), same=one == other
                    )

    def _of_batches(self, step: int) -> Iterator[Observation]:
        for rank, name in sorted(self._batches.get(step, ())):
            key = step, rank, name
            same = self.before.batches[key] == self.after.batches[key]
            yield _of_fingerprint(
                (step, "train", rank, name), "batch", TensorPlace(Stage.DATA, ""), same=same
            )


def _of_fingerprint(key: TensorKey, role: str, place: TensorPlace, *, same: bool) -> Observation:
    return Observation(*key, role, place, "fingerprint", same, 0.0 if same else float("nan"))


def _keyed(rows: Table, divided: set[str]) -> dict[TensorKey, int]:
    """Return the last row of each tensor; of a tensor that is divided in a job, that of the lowest rank."""
    lowest = int(rows["rank"].min()) if rows.rows else 0
    columns = (rows[name].tolist() for name in ("step", "mode", "rank", "name"))
    found: dict[TensorKey, int] = {}
    for at, (step, mode, rank, name) in enumerate(zip(*columns, strict=True)):
        if name not in divided:
            found[step, mode, rank, name] = at
        elif rank in (-1, lowest):
            found[step, mode, -1, name] = at
    return found


def _numbers(scalars: Table) -> dict[TensorKey, _Number]:
    columns = (scalars[name].tolist() for name in ("step", "mode", "rank", "name", "value", "time"))
    return {
        (step, mode, rank, name): _Number(value, time)
        for step, mode, rank, name, value, time in zip(*columns, strict=True)
        if step >= 0 and _NUMBERS.fullmatch(name)
    }


def _latest(numbers: dict[TensorKey, _Number], key: TensorKey) -> _Number | None:
    before = [other for other in numbers if other[0] <= key[0] and other[1:] == key[1:]]
    return numbers[max(before)] if before else None
