"""Logged numbers of training, one value a step: settled, and the mean over ranks and micro-steps."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from holter.analysis.tensors.shards import joined, whole
from holter.rules import BadRule
from holter.rules.engine.complete_steps import CompleteSteps, complete_steps
from holter.schema.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from holter.rules import Rule, Window

ANY_LOSS = r"(?is)^(?!.*loss[^a-z]?scal(?:e|er|ing)(?:[^a-z]|$)).*(?:^|[^a-z])loss"
"""What is called a loss; what mixed precision multiplies it with is none, and rises and falls as it likes."""
MAIN_LOSS = r"(?i)^((train(ing)?|total)[/_. -]?)?loss([/_. -]?(train(ing)?|total))?$"
"""The loss that training minimizes. Parts of one, as `loss_G` of a GAN or `policy_loss`, may jump about."""


class Curve(NamedTuple):
    """One number at the steps of one attempt; ranks that train in step log parts of one mean."""

    attempt: int
    steps: list[int]
    values: list[float]
    """Mean over ranks, and over micro-steps where a rank logged several."""
    rows: list[float]
    """How often a rank logged it, on average over ranks."""


def pattern(rule: Rule, parameter: str) -> re.Pattern[str]:
    """Compile a pattern that a rule was given; raises `BadRule` when it is none."""
    text = getattr(rule, parameter)
    try:
        return re.compile(text)
    except re.error as error:
        raise BadRule(f"{type(rule).__name__}: {parameter}={text!r} is no pattern: {error}") from None


def is_rate(name: str) -> bool:
    """Tell whether a number is a learning rate: `lr`, or `lr/GROUP` of one group of parameters."""
    return name == "lr" or name.startswith(("lr/", "lr_"))


def numbers(
    window: Window, state: dict[str, Any], wanted: Callable[[str], bool], *, with_skips: bool = False
) -> list[tuple[str, Curve]]:
    """Return the settled values of wanted scalars of training, by attempt and then by name.

    Norms of shards are joined: `grad_norm/shard` of all ranks is `grad_norm`.

    Args:
        window: Where new scalars are, and new spans `with_skips`.
        state: A place of its own in the rule's state.
        wanted: Which names.
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
    """Bring the rows of one number to one value a step."""
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
