"""Builds table `steps` from spans: one row per (rank, step) with wall time in exclusive parts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holter.analysis.intervals import measure, union
from holter.analysis.steps import evals
from holter.analysis.steps.exclusive import EVAL, exclusive
from holter.schema.phases import BREAKDOWN, Mode
from holter.schema.table import Table, repeated, steps_at_once

LATENESS_NS = 2_000_000_000
"""How much later than its successors a span may arrive and still be counted."""

MAX_PENDING = 2_000_000
"""Spans of one rank that may wait for the end of their step; beyond it the oldest half is given up."""

_COMPILE = len(BREAKDOWN)
_STEP = _COMPILE + 1
# Annotations, garbage collection, fetches of the training thread and instants are transparent: the part
# around them keeps their time.
_CODES = {part: code for code, part in enumerate(BREAKDOWN) if part != "other"} | {
    "compile": _COMPILE,
    "step": _STEP,
}
_MODES = {mode.name.lower(): int(mode) for mode in Mode}
_MODE_NAMES = np.array([mode.name.lower() for mode in sorted(Mode)], dtype=object)
_MARK = np.dtype(
    {
        "names": ["begin", "end", "code", "mode", "number", "loader", "thread", "steps"],
        "formats": ["i8", "i8", "i1", "i1", "i4", "i4", "i2", "i4"],
    }
)
"""`loader` is the value of data loading, and of a pass in evaluation mode."""
_KINDS = {
    BREAKDOWN.index("data_loading"): evals.DATA,
    BREAKDOWN.index("backward"): evals.BACKWARD,
    BREAKDOWN.index("optimizer"): evals.OPTIMIZER,
}
_FORWARD, _COMPUTE = BREAKDOWN.index("forward"), BREAKDOWN.index("compute")
_PASSES = (_FORWARD, _COMPUTE)
"""What calls a model: a pass, or a compiled function."""

Marks = NDArray[Any]


def steps(spans: Table) -> Table:
    """Compute table `steps` from all spans at once; sorted by time and rank.

    A step consists of the work of the thread that wrote its STEP span, which may not be the main thread.
    Steps without a STEP span are absent.
    """
    builder = StepBuilder()
    early = builder.feed(spans)
    return Table.concat([early, builder.finish()]).sorted("time", "rank")


@dataclass(slots=True)
class _Rank:
    """Spans of one rank that wait for their step to be complete."""

    marks: Marks = field(default_factory=lambda: np.empty(0, dtype=_MARK))
    newest: int = 0
    done: int = 0
    loop: int = 0
    """The thread that wrote the newest STEP span."""


class StepBuilder:
    """Builds table `steps` while spans arrive, in any order within `lateness_ns`, in bounded memory."""

    def __init__(self, lateness_ns: int = LATENESS_NS, max_pending: int = MAX_PENDING) -> None:
        self.lateness_ns = lateness_ns
        self.max_pending = max_pending
        self.late = 0
        """Spans that arrived after their step was returned; only their time in later steps counts."""
        self.given_up = 0
        """Spans that were dropped because no step ended for too long."""
        self._ranks: dict[tuple[str, int], _Rank] = {}

    def feed(self, spans: Table) -> Table:
        """Take spans; return the steps that are complete now, sorted by time and rank."""
        out = []
        for key, marks in _by_rank(spans):
            rank = self._ranks.setdefault(key, _Rank())
            fresh = marks["end"] > rank.done
            self.late += int(((marks["begin"] < rank.done) & (marks["thread"] == rank.loop)).sum())
            rank.marks = np.concatenate([rank.marks, marks[fresh]])
            rank.newest = max(rank.newest, int(marks["end"].max(initial=0)))
            out.append(self._complete(key, rank, rank.newest - self.lateness_ns - 1))
            if len(rank.marks) > self.max_pending:
                self._give_up(rank)
        return _joined(out)

    def finish(self) -> Table:
        """Return the steps that were still waiting for late spans. The builder can go on afterwards."""
        return _joined([self._complete(key, rank, rank.newest) for key, rank in self._ranks.items()])

    def _complete(self, key: tuple[str, int], rank: _Rank, until: int) -> Table:
        ready = rank.marks[(rank.marks["code"] == _STEP) & (rank.marks["end"] <= until)]
        if not len(ready):
            return Table.empty("steps")
        until = int(ready["end"].max())
        work = rank.marks[(rank.marks["code"] != _STEP) & (rank.marks["begin"] < until)]
        table = _rows(key, _disjoint(ready, rank.done), work)
        rank.marks = rank.marks[rank.marks["end"] > until]
        rank.done, rank.loop = until, int(ready["thread"][ready["end"].argmax()])
        return table

    def _give_up(self, rank: _Rank) -> None:
        """Forget the oldest spans; their time will count as `other` of the step that never ended."""
        newest = np.argsort(rank.marks["end"], kind="stable")[-(self.max_pending // 2) :]
        self.given_up += len(rank.marks) - len(newest)
        rank.marks = rank.marks[newest]


def _by_rank(spans: Table) -> list[tuple[tuple[str, int], Marks]]:
    spans = spans.where((spans["worker"] == -1) & (spans["duration"] > 0))
    codes = np.fromiter((_CODES.get(phase, -1) for phase in spans["phase"].tolist()), np.int8, spans.rows)
    spans, codes = spans.where(codes >= 0), codes[codes >= 0]
    marks = np.empty(spans.rows, dtype=_MARK)
    marks["begin"] = spans["time"]
    marks["end"] = spans["time"] + spans["duration"]
    marks["code"] = codes
    marks["mode"] = [_MODES.get(mode, 0) for mode in spans["mode"].tolist()]
    marks["number"] = spans["step"]
    marks["thread"] = spans["thread"]
    marks["steps"] = np.where(codes == _STEP, steps_at_once(spans["value"]), 1)
    has_value = (codes == _CODES["data_loading"]) | ((codes == _FORWARD) & (marks["mode"] == Mode.EVAL))
    marks["loader"] = np.nan_to_num(np.where(has_value, spans["value"], -1.0), nan=-1.0)
    nodes = spans["node"].tolist() if "node" in spans else [""] * spans.rows
    names = sorted(set(nodes))
    places = {name: at for at, name in enumerate(names)}
    node, rank = np.fromiter(map(places.__getitem__, nodes), np.int64, spans.rows), spans["rank"]
    order = np.lexsort((rank, node))  # stable, so that the marks of a rank stay in order
    marks, node, rank = marks[order], node[order], rank[order]
    begins = np.flatnonzero(np.append(True, (np.diff(node) != 0) | (np.diff(rank) != 0)))[: spans.rows]
    ends = [*begins[1:].tolist(), spans.rows]
    return [
        ((names[node[begin]], int(rank[begin])), marks[begin:end])
        for begin, end in zip(begins.tolist(), ends, strict=False)
    ]


def _disjoint(ready: Marks, done: int) -> Marks:
    """Sort step marks by begin and cut each where the one before it ends."""
    ready = ready[np.lexsort((ready["number"], ready["end"], ready["begin"]))]
    ends = np.maximum.accumulate(np.concatenate([[done], ready["end"]]))
    ready["begin"] = np.maximum(ready["begin"], ends[:-1])
    return ready[ready["end"] > ready["begin"]]


def _rows(key: tuple[str, int], bounds: Marks, work: Marks) -> Table:
    pieces, where = _cut(work, bounds)
    compiling = pieces["code"] == _COMPILE
    compiler = union(pieces["begin"][compiling], pieces["end"][compiling])
    pieces, where = pieces[~compiling], where[~compiling]
    pieces, where = _with_evaluations(pieces, where, bounds)
    own, part = exclusive(pieces["begin"], pieces["end"], pieces["code"])
    duration = bounds["end"] - bounds["begin"]
    parts = np.zeros((len(BREAKDOWN), len(bounds)), dtype=np.int64)
    np.add.at(parts, (part, where), own)
    parts[BREAKDOWN.index("other")] = duration - parts.sum(axis=0)
    node, rank = key
    columns = {
        "time": bounds["begin"].copy(),
        "duration": duration,
        "rank": np.full(len(bounds), rank, dtype=np.int32),
        "step": bounds["number"].copy(),
        "mode": _MODE_NAMES[bounds["mode"]],
        **{name: parts[code] for code, name in enumerate(BREAKDOWN)},
        "at_once": np.ones(len(bounds), dtype=np.int32),
        "compile": measure(compiler, bounds["begin"], bounds["end"]),
        "node": repeated(node, len(bounds)),
    }
    return _divided(Table(columns), bounds["steps"])


def _divided(rows: Table, count: NDArray[np.int64]) -> Table:
    """Divide the time of each row evenly among the steps that it stands for."""
    if (count == 1).all():
        return rows
    at = np.repeat(np.arange(rows.rows), count)
    place = np.arange(len(at)) - np.repeat(np.cumsum(count) - count, count)
    share = count[at]

    def divided(whole: NDArray[np.int64]) -> NDArray[np.int64]:
        each: NDArray[np.int64] = whole[at] * (place + 1) // share - whole[at] * place // share
        return each

    columns = {name: values[at] for name, values in rows.columns.items()}
    columns |= {name: divided(rows[name]) for name in (*BREAKDOWN, "compile")}
    columns["duration"] = np.sum([columns[part] for part in BREAKDOWN], axis=0)
    before = np.cumsum(columns["duration"]) - columns["duration"]
    columns["time"] = rows["time"][at] + before - before[np.flatnonzero(place == 0)].repeat(count)
    columns["step"] = (rows["step"][at] + place).astype(np.int32)
    columns["at_once"] = share.astype(np.int32)
    return Table(columns)


def _cut(work: Marks, bounds: Marks) -> tuple[Marks, NDArray[np.int64]]:
    """Cut spans of the loop's thread at the bounds of steps; return the pieces and the step of each."""
    first = np.searchsorted(bounds["end"], work["begin"], side="right")
    last = np.searchsorted(bounds["begin"], work["end"], side="left") - 1
    count = np.maximum(last - first + 1, 0)
    source = np.repeat(np.arange(len(work)), count)
    where = first[source] + np.arange(len(source)) - np.repeat(np.cumsum(count) - count, count)
    by_loop = work["thread"][source] == bounds["thread"][where]
    pieces, where = work[source[by_loop]], where[by_loop]
    pieces["begin"] = np.maximum(pieces["begin"], bounds["begin"][where])
    pieces["end"] = np.minimum(pieces["end"], bounds["end"][where])
    return pieces, where


def _with_evaluations(pieces: Marks, where: Any, bounds: Marks) -> tuple[Marks, Any]:
    """Add a span `eval` around every evaluation that was recognized."""
    suspicious = np.isin(pieces["code"], _PASSES) & (pieces["mode"] == Mode.EVAL)
    suspicious &= bounds["mode"][where] != Mode.PREDICT
    if not suspicious.any():
        return pieces, where
    # Spans alike in time stand in the order of what they are, not in that in which they came.
    order = np.lexsort((pieces["loader"], pieces["mode"], pieces["code"], -pieces["end"], pieces["begin"]))
    pieces, where = pieces[order], where[order]
    added, added_where = [], []
    starts = np.searchsorted(where, np.arange(len(bounds) + 1))
    for i in np.unique(where[suspicious[order]]).tolist():
        mine = pieces[starts[i] : starts[i + 1]]
        begins = [*mine["begin"].tolist(), int(bounds["end"][i])]
        for begin, end in evals.regions(int(bounds["begin"][i]), *_moments(mine), begins):
            if end > begin:
                added.append((begin, end, EVAL, Mode.EVAL, -1, -1, bounds["thread"][i], 1))
                added_where.append(i)
    extra = np.array(added, dtype=_MARK)
    return np.concatenate([pieces, extra]), np.concatenate([where, np.array(added_where, dtype=np.int64)])


def _moments(mine: Marks) -> tuple[list[evals.Moment], dict[int, int]]:
    moments, busy_until = [], {}
    reach = -1
    for begin, end, code, mode, _, loader, _, _ in mine.tolist():
        kind = _KINDS.get(code)
        if code in _PASSES and mode == Mode.EVAL:
            kind = evals.EVAL_FORWARD
        elif code in _PASSES:  # a compiled function that trains does it all
            kind = evals.TRAIN_FORWARD if code == _FORWARD else evals.OPTIMIZER
        if kind == evals.DATA and reach >= 0:
            busy_until[begin] = min(reach, begin)
        if kind is not None:
            trains = kind == evals.EVAL_FORWARD and loader == 1
            moments.append(evals.Moment(kind, begin, end, -1 if trains else loader, trains))
        reach = max(reach, end)
    return moments, busy_until


def _joined(tables: list[Table]) -> Table:
    return Table.concat([Table.empty("steps"), *tables]).sorted("time", "rank")
