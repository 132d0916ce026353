"""Rules from expressions: `when:grad_norm > 10 for 3 steps`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from holter.parameters import parameter
from holter.rules.own.expression import Expression, Node, Value, leaf_of, value_of
from holter.rules.own.parser import parse
from holter.rules.own.step import Step, completed
from holter.rules.rule import Issues, Rule
from holter.schema.severity import SEVERITIES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from holter.rules.engine.window import Window

WHEN = "when:"
_GRID_NS = 10_000_000_000
"""The length of the bins into which readings are summed; the grid begins at the job's start."""


@cache
def expression(text: str) -> type[Rule]:
    """Return the rule of an expression; raises `BadRule` with the error and its place."""
    made = parse(text)

    @dataclass(frozen=True, kw_only=True)
    class When(Rule):
        """The rule of an expression."""

        what: ClassVar[Expression] = made
        reads = made.reads
        description = text
        formula = text
        consecutive = 1

        level: str = parameter("warning", choices=SEVERITIES, aliases=("severity",))
        """The severity of its issues."""
        help: str = parameter("", aliases=("advice",))
        """What to do about it."""

        def evaluate(self, window: Window) -> Issues:
            """Judge the steps that are complete now, or the complete bins of readings."""
            judged = 0
            for moment in _moments(made, window) if made.timed else _steps(made, window):
                held = value_of(made.condition, moment.look)
                judged += held is not None
                for key, since in _lasting(made, window, moment, held):
                    where, about = moment.place(key, since)
                    about["evidence"] = _evidence(made.condition, moment.look, key)
                    yield self.issue(f"{text}: {where}", severity=self.level, advice=self.help, **about)
            window.judged(judged)
            known = window.state["known"] = bool(judged or window.state.get("known"))
            if not known:
                names = ", ".join(leaf.text() for leaf in made.condition.leaves())
                lack = "there are not enough readings yet" if made.timed else f"no step has {names} yet"
                window.insufficient("no_input", lack)

    When.__name__ = When.__qualname__ = f"{WHEN}{text}"
    return When


class _Moment(NamedTuple):
    """One step of a rank, or one bin of readings of all devices."""

    who: str
    """What is judged by itself: the rank, or nothing."""
    number: int
    """The step or the bin."""
    time: int
    look: Callable[[Node], Value]
    place: Callable[[str, int], tuple[str, dict[str, Any]]]
    """Returns words and entries of the place, for a tensor or device and the first step."""


def _steps(made: Expression, window: Window) -> Iterator[_Moment]:
    for step in completed(window, made.reads):

        def place(tensor: str, since: int, step: Step = step) -> tuple[str, dict[str, Any]]:
            where = f"step {step.number}, rank {step.rank}" + (f", of {tensor}" if tensor else "")
            about = {"tensor": tensor or None, "rank": step.rank, "node": step.node or None}
            times = {"time_start": step.time, "time_end": step.time}
            return where, {**about, **times, "step_start": since, "step_end": step.number}

        yield _Moment(str(step.rank), step.number, step.time, leaf_of(step), place)


def _moments(made: Expression, window: Window) -> Iterator[_Moment]:
    state, origin = window.state, window.job.start
    bins: dict[str, dict[str, dict[str, list[float]]]] = state.setdefault("bins", {})
    for leaf in made.condition.leaves():
        _gather(bins.setdefault(leaf.name.partition("(")[2], {}), leaf, window)
    while (end := origin + (state.setdefault("next", 0) + 1) * _GRID_NS) <= window.end:
        index = state["next"]
        state["next"] += 1

        def look(leaf: Node, index: int = index) -> Value:
            return _over(leaf, bins[leaf.name.partition("(")[2]], index)

        def place(key: str, _since: int, end: int = end) -> tuple[str, dict[str, Any]]:
            node, _, device = key.partition("|")
            about = {"node": node or None, "device": device or None}
            return f"{device or 'node'} of {node}", {**about, "time_start": end - _GRID_NS, "time_end": end}

        yield _Moment("", index, end, look, place)
    longest = max(leaf.value for leaf in made.condition.leaves()) / 10
    for places in bins.values():
        for pieces in places.values():
            for old in [one for one in pieces if int(one) < state["next"] - longest]:
                del pieces[old]


def _gather(places: dict[str, dict[str, list[float]]], leaf: Node, window: Window) -> None:
    """Add new readings to their bins: sum, count, least, greatest."""
    metric = leaf.name.partition("(")[2]
    done: dict[str, int] = window.state.setdefault("gathered", {})
    if done.get(metric) == window.end:
        return
    done[metric] = window.end
    for (node, device), series in window.series(metric, new=True).items():
        pieces = places.setdefault(f"{node}|{device}", {})
        for time, value in zip(series.time.tolist(), series.value.tolist(), strict=True):
            # A reading at the end of a bin belongs to the bin, as a window holds its own end.
            key = str(-((window.job.start - time) // _GRID_NS) - 1)
            piece = pieces.setdefault(key, [0.0, 0, math.inf, -math.inf])
            pieces[key] = [piece[0] + value, piece[1] + 1, min(piece[2], value), max(piece[3], value)]


def _over(leaf: Node, places: dict[str, dict[str, list[float]]], index: int) -> Value:
    """Return average, least or greatest of each device over the bins up to this one."""
    count = math.ceil(leaf.value / 10)
    if index + 1 < count:
        return None  # the job is younger than that
    found: dict[str, float] = {}
    for place, pieces in places.items():
        if here := [p for i in range(index - count + 1, index + 1) if (p := pieces.get(str(i))) is not None]:
            sums, counts, least, most = zip(*here, strict=True)
            values = {"avg": sum(sums) / sum(counts), "min": min(least), "max": max(most)}
            found[place] = values[leaf.name.partition("_")[0]]
    return found or None


def _lasting(made: Expression, window: Window, moment: _Moment, held: Value) -> Iterator[tuple[str, int]]:
    """Yield the tensors or devices for which the condition has held long enough, and since when."""
    streaks: dict[str, list[int]] = window.state.setdefault("streaks", {}).setdefault(moment.who, {})
    if held is None:
        return
    for key, value in (held if isinstance(held, dict) else {"": held}).items():
        if not value:
            streaks.pop(key, None)
            continue
        streak = streaks.setdefault(key, [0, moment.number, moment.time])
        streak[0] += 1
        long = moment.time - streak[2] + (_GRID_NS if made.timed else 0)
        if streak[0] >= made.steps and long >= made.seconds * 1e9:
            yield key, streak[1]


def _evidence(condition: Node, look: Callable[[Node], Value], key: str) -> dict[str, Value]:
    """Return the values of the leaves of an expression."""
    values = {leaf.text(): look(leaf) for leaf in condition.leaves()}
    return {name: value.get(key) if isinstance(value, dict) else value for name, value in values.items()}
