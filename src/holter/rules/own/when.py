"""Rules from expressions: `when:grad_norm > 10 for 3 steps`."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

from holter.parameters import parameter
from holter.rules.engine.window import Window
from holter.rules.own.expression import Expression, Node, Value, leaf_of, value_of
from holter.rules.own.parser import parse
from holter.rules.own.step import completed
from holter.rules.rule import Issue, Rule
from holter.schema.severity import SEVERITIES

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

        def evaluate(self, window: Window) -> Iterator[Issue]:
            """Judge the steps that are complete now, or the complete bins of readings."""
            found = _timed(made, window) if made.timed else _stepped(made, window)
            for about in found:
                yield self.issue(
                    f"{text}{about.pop('where')}", severity=self.level, advice=self.help, **about
                )

    When.__name__ = When.__qualname__ = f"{WHEN}{text}"
    return When


def _stepped(made: Expression, window: Window) -> Iterator[dict[str, Any]]:
    judged = 0
    for step in completed(window, made.reads):
        look = leaf_of(step)
        held = value_of(made.condition, look)
        judged += held is not None
        for key, since in _lasting(made, window, f"{step.rank}", held, step.number, step.time):
            where = f", of {key}" if key else ""
            yield {
                "where": f": step {step.number}, rank {step.rank}{where}",
                "tensor": key or None,
                "rank": step.rank,
                "node": step.node or None,
                "step_start": since,
                "step_end": step.number,
                "time_start": step.time,
                "time_end": step.time,
                "evidence": _evidence(made.condition, look, key),
            }
    window.judged(judged)
    if not judged and not window.state.get("known"):
        names = ", ".join(leaf.text() for leaf in made.condition.leaves())
        window.insufficient("no_input", f"no step has {names} yet")
    window.state["known"] = bool(judged or window.state.get("known"))


def _timed(made: Expression, window: Window) -> Iterator[dict[str, Any]]:
    state, origin = window.state, window.job.start
    bins: dict[str, dict[str, dict[str, list[float]]]] = state.setdefault("bins", {})
    for leaf in made.condition.leaves():
        _gather(bins.setdefault(leaf.name.partition("(")[2], {}), leaf, window)
    now: int = state.setdefault("next", 0)
    judged = 0
    while origin + (now + 1) * _GRID_NS <= window.end:
        at, index = origin + (now + 1) * _GRID_NS, now
        now += 1

        def look(leaf: Node, index: int = index) -> Value:
            return _over(leaf, bins[leaf.name.partition("(")[2]], index)

        held = value_of(made.condition, look)
        judged += held is not None
        for key, _ in _lasting(made, window, "", held, index, at):
            node, _, device = key.partition("|")
            yield {
                "where": f": {device or 'node'} of {node}",
                "node": node or None,
                "device": device or None,
                "time_start": at - _GRID_NS,
                "time_end": at,
                "evidence": _evidence(made.condition, look, key),
            }
    state["next"] = now
    longest = max(leaf.value for leaf in made.condition.leaves()) / 10
    for places in bins.values():
        for pieces in places.values():
            for old in [one for one in pieces if int(one) < now - longest]:
                del pieces[old]
    window.judged(judged)
    if not judged and not state.get("known"):
        window.insufficient("no_input", "there are not enough readings yet")
    state["known"] = bool(judged or state.get("known"))


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
    found = {}
    for place, pieces in places.items():
        here = [p for i in range(index - count + 1, index + 1) if (p := pieces.get(str(i))) is not None]
        if not here:
            continue
        kind = leaf.name.partition("_")[0]
        found[place] = {
            "avg": lambda bins=here: sum(p[0] for p in bins) / sum(p[1] for p in bins),
            "min": lambda bins=here: min(p[2] for p in bins),
            "max": lambda bins=here: max(p[3] for p in bins),
        }[kind]()
    return found or None


def _lasting(
    made: Expression, window: Window, who: str, held: Value, number: int, time: int
) -> Iterator[tuple[str, int]]:
    """Yield the tensors or devices for which the condition has held long enough, and since when."""
    streaks: dict[str, list[int]] = window.state.setdefault("streaks", {}).setdefault(who, {})
    if held is None:
        return
    for key, value in (held if isinstance(held, dict) else {"": held}).items():
        if not value:
            streaks.pop(key, None)
            continue
        streak = streaks.setdefault(key, [0, number, time])
        streak[0] += 1
        long = time - streak[2] + (_GRID_NS if made.timed else 0)
        if streak[0] >= made.steps and long >= made.seconds * 1e9:
            yield key, streak[1]


def _evidence(condition: Node, look: Any, key: str) -> dict[str, Any]:
    """Return the values of the leaves of an expression."""
    found = {}
    for leaf in condition.leaves():
        value = look(leaf)
        found[leaf.text()] = value.get(key) if isinstance(value, dict) else value
    return found
