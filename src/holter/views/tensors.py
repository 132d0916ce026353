"""Lists the saved tensors of a job and the statistics that charts draw."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypedDict, cast

import numpy as np

from holter.analysis.tensors.parts import BASIS, joined
from holter.schema import tensor_spool as spool
from holter.schema.table import Table
from holter.store.parquet.queries import literal
from holter.store.tensors_json import read_told
from holter.tensors.selection import is_member
from holter.views.wording import meant, natural

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holter.store.documents import Document
    from holter.store.trial import Trial
    from holter.views.document.types.values import TableRow


@dataclass(frozen=True, slots=True)
class Statistic:
    """One number that a tensor has at a step."""

    label: str
    sql: str
    """Over the columns of table `tensors`, and `apart`: steps since the row before."""
    unit: str = ""
    log: bool = False
    """Whether the axis is logarithmic; it shows only values above 0."""
    table: str = "tensors"


_SQUARE = "(std::DOUBLE * std + mean::DOUBLE * mean)"
_L2 = f"sqrt({_SQUARE} * (count - nan - posinf - neginf))"
STATISTICS = {
    "l2": Statistic("Euclidean norm", _L2, log=True),
    "rms": Statistic("root mean square", f"sqrt({_SQUARE})", log=True),
    "abs_mean": Statistic("mean absolute value", "abs_mean", log=True),
    "mean": Statistic("mean", "mean"),
    "std": Statistic("standard deviation", "std", log=True),
    "min": Statistic("smallest element", "min"),
    "max": Statistic("largest element", "max"),
    "q05": Statistic("quantile 0.05", "q05"),
    "q50": Statistic("median", "q50"),
    "q95": Statistic("quantile 0.95", "q95"),
    "update_ratio": Statistic(
        "relative update of a step", f"delta_l2 / nullif({_L2}, 0) / nullif(apart, 0)", log=True
    ),
    "delta_l2": Statistic("norm of the change since the last row", "delta_l2", log=True),
    "dead": Statistic(
        "units never active since the last row",
        "100.0 * avg(CASE WHEN value = 0 THEN 1 ELSE 0 END)", "%", table="tensor_values",
    ),
    "zeros": Statistic("elements that are zero", "100.0 * zeros / nullif(count, 0)", "%"),
    "nonfinite": Statistic("elements that are not finite", "nan + posinf + neginf", "elements"),
}  # fmt: skip
"""The statistics that can be drawn, by name."""


def statistic(name: str) -> Statistic:
    """Return a statistic; raises `ValueError` that names those there are, and the nearest."""
    if name not in STATISTICS:
        known = ", ".join(STATISTICS)
        raise ValueError(f"no statistic {name!r}{meant(name, STATISTICS)}; there are: {known}")
    return STATISTICS[name]


_KEYS = ("name", "step", "mode", "rank", "time")
_APART = "step - lag(step) OVER (PARTITION BY name, mode, rank ORDER BY step) AS apart"
_MANY = 200_000
"""So many rows of parts are joined at once; more of them tensor by tensor, in as little memory."""


def values(
    trial: Trial, of: Statistic, *, where: str = "true", rank: int | None = None, mode: str | None = None
) -> tuple[str, dict[str, Table]]:
    """Return SQL for `name`, `step`, `mode`, `rank`, `time`, `value`, `lacks`, and the tables that it needs.

    Parts of sharded tensors are joined: their rank is -1. Where a part is missing there is no value, and
    `lacks` is true. `where` is a condition over `name` and, of table `tensors`, `role`. For one rank, the
    table has the parts that it holds.
    """
    where = asked(where, rank, mode)
    if of.table == "tensor_values":
        return (
            f"SELECT name, step, mode, rank, min(time) AS time, {of.sql} AS value, false AS lacks "  # noqa: S608
            f"FROM tensor_values WHERE kind = 'active' AND {where} GROUP BY ALL"
        ), {}
    wholes = joined_rows(trial, where, of.sql) if rank is None else None
    plain = f"{where} AND coalesce(parts, 0) <= 1" if wholes is not None else where
    apart = _APART if "apart" in of.sql else "NULL AS apart"
    columns = f"name, step, mode, rank, time, CAST({of.sql} AS DOUBLE) AS value, lacks"
    rows = f"SELECT *, {apart}, false AS lacks FROM tensors WHERE {plain}"  # noqa: S608
    query = f"SELECT {columns} FROM ({rows})"  # noqa: S608
    if wholes is None:
        return query, {}
    return f"{query} UNION ALL SELECT {columns} FROM wholes", {"wholes": wholes}  # noqa: S608


def asked(where: str, rank: int | None, mode: str | None) -> str:
    """Narrow SQL for some tensors to a rank and a mode."""
    only = "" if rank is None else f" AND rank = {int(rank)}"
    return where + only + (f" AND mode = {literal(mode)}" if mode else "")


def joined_rows(trial: Trial, where: str, sql: str) -> Table | None:
    """Join the parts of sharded tensors: as `holter.analysis.tensors.parts.joined`, with `apart` and `lacks`.

    Returns the wholes, and those that lack a part, without statistics; None if no tensor is sharded. `where`
    is a condition over table `tensors`. Only the columns that `sql` names are joined.
    """
    where = f"parts > 1 AND {where}"
    names = trial.sql(f"SELECT name, count(*) AS rows FROM tensors WHERE {where} GROUP BY name ORDER BY name")  # noqa: S608
    if not names.rows:
        return None
    wanted = dict.fromkeys(("name", "step", "mode", "rank", "time", "part", "parts", *BASIS))
    wanted |= dict.fromkeys(
        name for name in (*spool.COUNTS, *spool.STATISTICS, *spool.DELTAS) if re.search(rf"\b{name}\b", sql)
    )
    portion = np.cumsum(names["rows"]) // _MANY
    found = []
    for number in np.unique(portion).tolist():
        some = ", ".join(literal(name) for name in names["name"][portion == number].tolist())
        columns = f"{', '.join(wanted)}, {_APART}"
        rows = trial.sql(f"SELECT {columns} FROM tensors WHERE {where} AND name IN ({some})")  # noqa: S608
        wholes, lacking = joined(rows)
        nothing = np.full(lacking.rows, np.nan)
        gone = Table({name: lacking[name] if name in _KEYS else nothing for name in lacking.names})
        for part, lacks in ((wholes, False), (gone, True)):
            found.append(Table({**part.columns, "lacks": np.full(part.rows, lacks)}))
    return Table.concat(found)


def about_ranks(trial: Trial, of: Statistic, where: str, rank: int | None) -> str:
    """Explain how the chart combines tensors of several ranks; `where` names rank and mode."""
    told = "NULL::INTEGER" if of.table == "tensor_values" else "parts"
    found = trial.sql(
        f"SELECT coalesce(max(parts), 0) AS parts, count(*) FILTER (parts IS NULL) AS untold, "  # noqa: S608
        "count(DISTINCT rank) FILTER (coalesce(parts, 0) <= 1) AS alike "
        f"FROM (SELECT rank, {told} AS parts FROM {of.table} WHERE {where})"
    )
    parts, untold, alike = (int(found[name][0]) for name in ("parts", "untold", "alike"))
    said = []
    if rank is not None:
        said += [f"Of sharded tensors the part that rank {rank} holds, one of {parts}."] if parts > 1 else []
    else:
        if alike > 1:
            said.append(f"Mean of {alike} ranks.")
        if parts > 1:
            said.append(f"Sharded tensors are joined over {parts} parts.")
        if alike > 1 and untold and of.table == "tensors":
            said.append(
                "The job does not say which tensors are sharded: of those a mean of parts is no whole."
            )
    return " ".join(said)


_REACHED = (
    "SELECT name, min(last) FROM (SELECT name, part, max(step) AS last FROM tensors WHERE parts > 1 "
    "GROUP BY name, part) GROUP BY name"
)
"""The last step of each sharded tensor that all parts have reached."""


class SavedTensor(TypedDict):
    """One saved tensor."""

    name: str
    role: str
    rows: int
    first_step: int
    last_step: int
    elements: int | None
    abs_mean: float | None
    """That of the last row, of a sharded tensor that of the last step which all parts have reached."""
    nonfinite: int
    """Number of rows with elements that are not finite."""
    histogram: bool
    """Whether it has histograms."""
    collections: list[str]


def catalog(trial: Trial) -> list[SavedTensor]:
    """List the saved tensors in the model's order as far as it is known."""
    found = trial.sql(
        "SELECT name, any_value(role) AS role, count(*) AS rows, min(step) AS first_step, "
        "max(step) AS last_step, max(count) AS elements, arg_max(abs_mean, step) AS abs_mean, "
        "count(*) FILTER (nan + posinf + neginf > 0) AS nonfinite, min(time) AS time "
        "FROM tensors GROUP BY name"
    )
    sharded: dict[str, TableRow] = {}
    wholes = joined_rows(trial, f"(name, step) IN ({_REACHED})", "abs_mean")
    for row in () if wholes is None else wholes.to_rows():
        last = sharded.setdefault(row["name"], {"elements": None, "abs_mean": None})
        if not row["lacks"]:
            last |= {"elements": int(row["count"]), "abs_mean": row["abs_mean"]}
    others = trial.sql(
        "SELECT name, count(DISTINCT step) AS rows, min(step) AS first_step, max(step) AS last_step, "
        "bool_or(kind = 'histogram') AS histogram, min(time) AS time, '' AS role, NULL::BIGINT AS elements, "
        "NULL::DOUBLE AS abs_mean, 0 AS nonfinite FROM tensor_values GROUP BY name"
    )
    valued = {str(row["name"]): row for row in others.to_rows()}
    rows = valued | {str(row["name"]): row for row in found.to_rows()}
    selections = {name: one for name, one in read_told(trial.folder).collections.items() if name != "all"}
    listed: list[SavedTensor] = []
    for name, row in sorted(rows.items(), key=lambda entry: (entry[1]["time"], natural(entry[0]))):
        last, role = sharded.get(name, row), str(row["role"])
        mean = last["abs_mean"]
        about = {
            "role": role,
            "elements": last["elements"],
            "abs_mean": None if mean != mean else mean,
            "histogram": name in valued and bool(valued[name]["histogram"]),
            "collections": [
                group for group, one in selections.items() if is_member(one, name, {role} - {""})
            ],
        }
        listed.append(cast("SavedTensor", {key: (row | about)[key] for key in SavedTensor.__annotations__}))
    return listed


def matching(rows: Sequence[SavedTensor], search: str = "", collection: str = "") -> list[SavedTensor]:
    """Keep the tensors whose name holds each word of a search, and that belong to a collection or role."""
    words = search.lower().split()
    return [
        row
        for row in rows
        if all(word in row["name"].lower() for word in words)
        and (
            not collection
            or collection in row["collections"]
            or f"{row['role']}:".startswith(f"{collection}:")
        )
    ]


_NONFINITE: dict[Literal["tensor", "scalar"], str] = {
    "tensor": "nan + posinf + neginf > 0",
    "scalar": "NOT isfinite(value)",
}
"""The SQL condition of values that are not finite, by source; the table is the plural."""


class FirstNonfinite(TypedDict):
    """The first NaN or infinity of a job."""

    step: int | None
    rank: int | None
    name: str
    """The module, parameter, tensor or number."""
    source: Literal["event", "tensor", "scalar"]
    """Event: the recorder saw its origin. Tensor, scalar: a saved value has it, its origin is unknown."""
    detail: Document


def first_nonfinite(trial: Trial) -> FirstNonfinite | None:
    """Find the first NaN or infinity of a job; None if all numbers are finite."""
    found: list[FirstNonfinite] = []
    for row in trial.table("events", where="kind = 'nonfinite'").to_rows():
        try:
            detail = json.loads(row["detail"])
        except ValueError:
            continue
        if isinstance(detail, dict):
            found.append(
                {
                    "step": detail.get("step"),
                    "rank": row["rank"],
                    "name": row["name"],
                    "source": "event",
                    "detail": detail,
                }
            )
    if found:
        return min(found, key=lambda one: (one["step"] is None, one["step"] or 0))
    for source, where in _NONFINITE.items():
        query = f"SELECT step, rank, name FROM {source}s WHERE {where} ORDER BY step, time LIMIT 1"  # noqa: S608
        for row in trial.sql(query).to_rows():
            return {
                "step": row["step"],
                "rank": row["rank"],
                "name": row["name"],
                "source": source,
                "detail": {},
            }
    return None
