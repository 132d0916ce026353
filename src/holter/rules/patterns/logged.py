"""Logged numbers of training as curves: one value per complete step, the mean over ranks and micro-steps."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from holter.analysis.tensors.shards import joined, whole
from holter.rules import Rule, Window, rule_class
from holter.rules.engine.complete_steps import CompleteSteps, complete_steps
from holter.rules.patterns.collections import check_patterns, tested
from holter.schema.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from numpy.typing import NDArray

ANY_LOSS = r"(?is)^(?!.*loss[^a-z]?scal(?:e|er|ing)(?:[^a-z]|$)).*(?:^|[^a-z])loss"
"""Names of losses; the loss scale of mixed precision is excluded."""
MAIN_LOSS = r"(?i)^((train(ing)?|total)[/_. -]?)?loss([/_. -]?(train(ing)?|total))?$"
"""Names of the loss that training minimizes. Partial losses such as `loss_G` or `policy_loss` may jump."""


class Curve(NamedTuple):
    """The values of one number at the steps of one attempt."""

    attempt: int
    steps: list[int]
    values: list[float]
    """Mean over ranks, and over micro-steps where a rank logged several."""
    rows: list[float]
    """The mean number of values per rank."""


@rule_class
class PatternRule(Rule):
    """The base of rules with patterns among their parameters; it refuses an invalid pattern."""

    patterns: ClassVar[tuple[str, ...]] = ("names",)
    """The parameters that are patterns."""

    def __post_init__(self) -> None:
        Rule.__post_init__(self)
        for name in self.patterns:
            pattern(self, name)


def pattern(rule: Rule, parameter: str) -> re.Pattern[str]:
    """Compile a pattern in a rule's parameter; raises `BadRule` for an invalid pattern."""
    check_patterns(rule, parameter, getattr(rule, parameter))
    return re.compile(getattr(rule, parameter))


def is_rate(name: str) -> bool:
    """Return whether a number is a learning rate: `lr`, or `lr/GROUP` of one group of parameters."""
    return name == "lr" or name.startswith(("lr/", "lr_"))


def numbers(
    window: Window, wanted: Callable[[str], object], *, with_skips: bool = False
) -> list[tuple[str, Curve]]:
    """Return the wanted scalars of training at complete steps, by attempt and then by name.

    Norms of shards are joined: `grad_norm/shard` of all ranks is `grad_norm`.

    Args:
        window: The window with new scalars, and new spans for `with_skips`; `state["rows"]` keeps the rest.
        wanted: Returns whether a name is wanted.
        with_skips: Add a number `skipped`, 1 at each optimizer step that a gradient scaler skipped.
    """
    new = window.new("scalars")
    if with_skips and (skipped := skips(window)).rows:
        new = Table.concat([Table({name: new[name] for name in skipped.columns}), skipped])
    mine = tested(new["name"], lambda name: name == "skipped" or wanted(whole(name)))
    state = window.state.setdefault("rows", {})
    found = complete_steps(new.where(mine & trained(new)), state, ("name", "value"), ended=window.job.ended)
    found = [CompleteSteps(one.attempt, joined(one.rows)) for one in found]
    return [(name, by_step(one, name)) for one in found for name in sorted(set(one.rows["name"].tolist()))]


def trained(rows: Table) -> NDArray[np.bool_]:
    """Return which rows come from training, and not from evaluation or prediction."""
    return np.asarray((rows["mode"] != "eval") & (rows["mode"] != "predict"))


def stacked(parts: Iterable[tuple[str, Table, Mapping[str, NDArray[Any]]]], **types: Any) -> Table:
    """Put rows of several kinds into one table with time, rank, step, name and kind.

    Args:
        parts: The kind, the rows, and the further columns of the kind.
        types: The types of all further columns; 0 where a kind has no such column.
    """
    made = []
    for kind, rows, more in parts:
        columns = {name: rows[name] for name in ("time", "rank", "step", "name")}
        columns["kind"] = np.full(rows.rows, kind, dtype=object)
        for name, dtype in types.items():
            columns[name] = more[name].astype(dtype) if name in more else np.zeros(rows.rows, dtype)
        made.append(Table(columns))
    return Table.concat([one for one in made if one.rows] or made[:1])


def by_step(given: CompleteSteps, name: str) -> Curve:
    """Reduce the rows of one number to one value per step."""
    rows = given.rows.where(given.rows["name"] == name)
    step, rank = rows["step"].astype(np.int64), rows["rank"].astype(np.int64)
    first = np.flatnonzero(np.diff(step, prepend=step[:1] - 1))
    count = np.diff(np.append(first, len(step)))
    with np.errstate(all="ignore"):
        mean: NDArray[np.float64] = np.add.reduceat(rows["value"], first) / count
    other = np.diff(rank, prepend=rank[:1]) != 0
    other[first] = True
    ranks = np.add.reduceat(other, first)
    return Curve(given.attempt, step[first].tolist(), mean.tolist(), (count / ranks).tolist())


def restarts(rates: Curve, state: dict[str, float | None], factor: float = 2.0) -> list[int]:
    """Return the steps at which a learning rate rose more than `factor`-fold: a schedule restarted."""
    before = state.get("rate")
    found = []
    for step, value in zip(rates.steps, rates.values, strict=True):
        if before is not None and value > factor * before:
            found.append(step)
        before = value
    state["rate"] = before
    return found


def skips(window: Window) -> Table:
    """Return the new optimizer steps that a gradient scaler skipped, as rows of scalars named `skipped`."""
    rows = window.spans_of("skipped", new=True)
    columns = {name: rows[name] for name in ("time", "rank", "step", "mode", "node")}
    names = np.full(rows.rows, "skipped", dtype=object)
    return Table({**columns, "name": names, "value": np.ones(rows.rows)})
