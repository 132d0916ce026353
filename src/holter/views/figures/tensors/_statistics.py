"""Reads a statistic of tensors over the steps, reduced to the points that fit on a chart."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holter.analysis.verdict.evidence import counted
from holter.store.parquet.queries import literals
from holter.views.tensors import about_ranks, asked, values
from holter.views.wording import natural

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holter.views.reading import Reading
    from holter.views.tensors import Statistic

MODES = ("train", "eval", "predict", "global")
NOTHING = (
    "No tensors were saved. `holter run --save gradients@100` saves the statistics of gradients every 100 "
    "steps; weights, biases, losses, inputs and outputs can be saved too."
)

IN_PARTS = (
    "Quantiles of the parts of a sharded tensor do not join, nor does anything where a part is missing: "
    "these are there for one rank at a time."
)


def named(names: Sequence[str]) -> str:
    """Return the SQL that selects some tensors."""
    return f"name IN ({literals(names)})" if names else "true"


def chosen_names(reading: Reading, tensor: str | None, most: int, kind: str = "") -> list[str]:
    """Return the first `most` names of a text, one a line; of an empty text, the first saved tensors.

    With `kind` only tensors count of which `tensor_values` has that kind.
    """
    names = [name for name in (tensor or "").replace("\r", "").split("\n") if name]
    if not names or kind:
        source = f"tensor_values WHERE kind = '{kind}' AND" if kind else "tensors WHERE"
        query = f"SELECT name, min(time) AS time FROM {source} {named(names)} GROUP BY name"  # noqa: S608
        found = reading.trial.sql(query).to_rows()
        rows = sorted(found, key=lambda row: (row["time"], natural(str(row["name"]))))
        known = [str(row["name"]) for row in rows]
        names = [name for name in names if name in known] or known
    return names[:most]


def over_steps(
    reading: Reading,
    of: Statistic,
    where: str,
    *,
    rank: int | None = None,
    mode: str | None = None,
    by_mode: bool = False,
) -> tuple[list[float], dict[tuple[str, str], list[float | None]], str]:
    """Return steps, for each tensor (and mode, else "") its mean in the stretch around each, and a note.

    Values of several ranks are averaged, or joined if ranks hold parts of a tensor. Values that are not
    finite are left out; a stretch without values is None.
    """
    if mode and mode not in MODES:
        raise ValueError(f"no mode {mode!r}; valid: {', '.join(MODES)}")
    each, more = values(reading.trial, of, where=where, rank=rank, mode=mode)
    query = f"SELECT * FROM ({each}) WHERE (isfinite(value) OR lacks) AND {reading.inside}"  # noqa: S608
    ends = reading.trial.sql(
        "SELECT min(step) AS low, max(step) AS high, count(value) AS number, "  # noqa: S608
        f"count(DISTINCT step) FILTER (lacks) AS lacking FROM ({query})",
        more=more,
    )
    lacking = int(ends["lacking"][0])
    if not int(ends["number"][0]):
        return [], {}, ""
    note = about_ranks(reading.trial, of, asked(where, rank, mode), rank)
    if lacking:
        note += f" At {counted(lacking, 'saved step')} a part is missing: there is no value."
    low, span = int(ends["low"][0]), int(ends["high"][0]) + 1 - int(ends["low"][0])
    count = max(1, min(reading.width, span))
    rows = reading.trial.sql(
        f"SELECT name, {'mode' if by_mode else repr('')} AS mode, (step - {low}) * {count} // {span} AS at, "  # noqa: S608
        f"avg(value) AS value, min(time) AS time, avg(step) AS step FROM ({query}) GROUP BY ALL",
        more=more,
    )
    found: dict[tuple[str, str], dict[int, float]] = {}
    seen: dict[tuple[str, str], int] = {}
    steps: dict[int, float] = {}
    for row in rows.to_rows():
        key, at = (str(row["name"]), str(row["mode"])), int(row["at"])
        if row["value"] == row["value"]:
            found.setdefault(key, {})[at] = float(row["value"])
        seen[key] = min(int(row["time"]), seen.get(key, int(row["time"])))
        steps.setdefault(at, float(row["step"]))
    # A stretch in which nothing at all was saved is no gap: tensors are saved every so many steps.
    used = sorted(steps)
    ordered = sorted(found, key=lambda key: (seen[key], natural(key[0]), key[1]))
    return [steps[at] for at in used], {key: [found[key].get(at) for at in used] for key in ordered}, note
