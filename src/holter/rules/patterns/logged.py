"""Logged numbers of training as curves: one value per complete step, the mean over ranks and micro-steps."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from holter.analysis.tensors.shards import joined, whole
from holter.rules import BadRule, Rule, Window
from holter.rules.engine.complete_steps import CompleteSteps, complete_steps
from holter.schema.table import Table

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


def pattern(rule: Rule, parameter: str) -> re.Pattern[str]:
    """Compile a pattern in a rule's parameter; raises `BadRule` for an invalid pattern."""
    text = getattr(rule, parameter)
    try:
        return re.compile(text)
    except re.error as error:
        raise BadRule(f"{type(rule).__name__}: {parameter}={text!r} is no pattern: {error}") from None


def is_rate(name: str) -> bool:
    """Return whether a number is a learning rate: `lr`, or `lr/GROUP` of one group of parameters."""
    return name == "lr" or name.startswith(("lr/", "lr_"))


def numbers(
    window: Window, state: dict[str, Any], wanted: Callable[[str], bool], *, with_skips: bool = False
) -> list[tuple[str, Curve]]:
    """Return the wanted scalars of training at complete steps, by attempt and then by name.

    Norms of shards are joined: `grad_norm/shard` of all ranks is `grad_norm`.

    Args:
        window: The window with new scalars, and new spans for `with_skips`.
        state: A dictionary in the rule's state that nothing else uses.
        wanted: Returns whether a name is wanted.
        with_skips: Add a number `skipped`, 1 at each optimizer step that a gradient scaler skipped.
    """
    new = window.new("scalars")
    if with_skips and (skipped := skips(window)).rows:
        new = Table.concat([Table({name: new[name] for name in skipped.columns}), skipped])
    names = {name for name in set(new["name"].tolist()) if name == "skipped" or wanted(whole(name))}
    training = (new["mode"] != "eval") & (new["mode"] != "predict")
    mine = np.fromiter((name in names for name in new["name"].tolist()), dtype=bool, count=new.rows)
    found = complete_steps(new.where(mine & training), state, ("name", "value"), ended=window.job.ended)
    found = [CompleteSteps(one.attempt, joined(one.rows)) for one in found]
    return [(name, by_step(one, name)) for one in found for name in sorted(set(one.rows["name"].tolist()))]


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


def restarts(rates: Curve, state: dict[str, Any], factor: float = 2.0) -> list[int]:
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
