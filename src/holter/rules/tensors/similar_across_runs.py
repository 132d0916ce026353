"""SimilarAcrossRuns: tensors differ from those of the reference run."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from holter.analysis.grouping import groups
from holter.rules import Issues, Window, parameter, rule_class
from holter.rules.patterns.collections import matches
from holter.rules.patterns.latest import LOSS
from holter.rules.patterns.tensor_issues import TensorFinding
from holter.rules.patterns.tensor_values import contents
from holter.rules.patterns.tensors import TensorRule
from holter.schema.table import Table

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from holter.rules.engine.step_rows import StepRows

_STATISTICS = ("mean", "std", "min", "max")
_COUNTS = ("count", "nan", "posinf", "neginf")


@rule_class
class SimilarAcrossRuns(TensorRule):
    """A tensor differs from that of another run at the same step (or equals it, with fire_if)."""

    reads = ("tensors", "tensor_values", "scalars")
    severity = "info"
    formula = (
        "|a - b| > atol + rtol x |b| for an element, or for a statistic when the elements are not recorded"
    )
    advice = (
        "Compare the seeds, versions, data order and hardware of the two runs, starting at the first tensor"
        " and step that differ."
    )
    packs = ("sagemaker",)
    nonfinite = True
    statistics = (*_STATISTICS, "fingerprint")
    kinds = ("value", "shape")
    save = "losses@1"

    tensor_regex: tuple[str, ...] | None = parameter(None, aliases=("include_regex",))
    """Patterns that find tensors and logged numbers anywhere in their names."""
    collection_names: tuple[str, ...] | None = parameter(("losses",), classic=None)
    """Collections that are compared, together with what the patterns find; with neither everything is."""
    other_trials: tuple[str, ...] | None = parameter(
        None, aliases=("other_trial", "other_trial_0", "other_job")
    )
    """Runs to compare with, by the names under which they are given."""
    rtol: float = parameter(1e-5, classic=0.0, low=0)
    """Allowed difference, as a share of the other value."""
    atol: float = parameter(1e-8, classic=0.0, low=0)
    """Allowed difference in addition to rtol."""
    fire_if: str = parameter("different", choices=("different", "similar"))
    """Whether the rule reports what differs or what is similar."""

    def evaluate(self, window: Window) -> Issues:
        """Compare the new rows with the given runs."""
        missing = [name for name in self.other_trials or () if window.baseline(name) is None]
        if not self.other_trials or len(missing) == len(self.other_trials):
            text = f"run {', '.join(missing)} was not given" if missing else "there is no other run"
            window.insufficient("no_input", f"{text}; name a run to compare with in other_trials")
            return
        yield from TensorRule.evaluate(self, window)
        if window.state.get("missing"):
            window.details["missing_in_other_run"] = window.state["missing"]

    def fresh(self, window: Window) -> dict[str, Table]:
        """Treat scalars as tensors with one element."""
        new = {"tensors": window.new("tensors"), "tensor_values": window.new("tensor_values")}
        return {**new, "tensors": _with_scalars(new["tensors"], window.new("scalars"))}

    def judge(self, window: Window, at: StepRows) -> Iterator[TensorFinding]:
        """Compare each tensor with the one of the same name, rank, mode and step."""
        rows, values = self.rows(window, at), contents(at.tables["tensor_values"])
        for name in self.other_trials or ():
            tables = window.baseline(name)
            if tables is None:
                continue
            others, other_values = _others(tables, at)
            for row in rows:
                other = others.get(row["name"])
                if other is None:
                    window.state["missing"] = window.state.get("missing", 0) + 1
                    continue
                mine, its = values.get(row["name"], {}), other_values.get(row["name"], {})
                difference = self._difference(row, other, mine.get("value"), its.get("value"))
                if (difference > 0) == (self.fire_if == "different"):
                    yield TensorFinding(
                        tensor=row["name"], what=f"largest difference from run {name}", value=difference,
                        comparator=">" if difference > 0 else "<=", threshold=0.0, code=name,
                        role=row["role"],
                    )  # fmt: skip

    def _difference(self, row: dict[str, Any], other: dict[str, Any], mine: Any, its: Any) -> float:
        """Return the difference beyond the tolerance; infinity if the sizes differ."""
        if any(row[count] != other[count] for count in _COUNTS):
            return math.inf
        if mine is not None and its is not None and len(mine) == len(its):
            return self._beyond(mine, its)
        if row["fingerprint"] and other["fingerprint"] and row["fingerprint"] == other["fingerprint"]:
            return 0.0
        a, b = (np.array([float(one[s]) for s in _STATISTICS]) for one in (row, other))
        beyond = self._beyond(a, b)
        exact = self.rtol == 0 and self.atol == 0 and row["fingerprint"] and other["fingerprint"]
        # The bits differ but no statistic does: the difference is too small for the statistics.
        return max(beyond, float(np.finfo(np.float32).tiny)) if exact else beyond

    def _beyond(self, a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        with np.errstate(invalid="ignore", over="ignore"):
            far = np.abs(a - b)
            close = far <= self.atol + self.rtol * np.abs(b)
        odd = np.where(np.isfinite(far), far, math.inf)
        return float(np.max(np.where(same | close, 0.0, odd), initial=0.0))


def _with_scalars(tensors: Table, scalars: Table) -> Table:
    """Add scalars to the tensor rows as tensors with one element, both in double precision."""
    value = scalars["value"].astype(np.float64)
    role = ["loss" if matches(LOSS, name) else "" for name in scalars["name"].tolist()]
    count = np.ones(scalars.rows, dtype=np.int64)
    given = {
        **{name: scalars[name] for name in ("time", "rank", "step", "mode", "name", "node")},
        "role": np.array(role, dtype=object),
        "state": np.full(scalars.rows, "", dtype=object),
        "count": count,
        "nan": np.isnan(value).astype(np.int64),
        "posinf": (value == math.inf).astype(np.int64),
        "neginf": (value == -math.inf).astype(np.int64),
        "mean": np.where(np.isfinite(value), value, np.nan),
        "fingerprint": 0 * count,
        **{name: np.full(scalars.rows, np.nan) for name in _STATISTICS[1:]},
    }
    return Table({name: np.concatenate([_double(tensors[name]), column]) for name, column in given.items()})


def _double(column: NDArray[Any]) -> NDArray[Any]:
    return column.astype(np.float64) if column.dtype == np.float32 else column


def _others(
    tables: Mapping[str, Table], at: StepRows
) -> tuple[dict[str, dict[str, Any]], dict[str, dict[str, NDArray[np.float64]]]]:
    """Return another run's rows of a step: one for each tensor, and its elements."""
    tensors, scalars, values = (
        _at(tables.get(name) or Table.empty(name), at) for name in ("tensors", "scalars", "tensor_values")
    )
    rows = sorted(_with_scalars(tensors, scalars).to_rows(), key=lambda row: (row["time"], repr(row)))
    return {row["name"]: row for row in rows}, contents(values)


def _at(table: Table, at: StepRows) -> Table:
    rows = table.where(_places(table).get((at.rank, at.step), np.empty(0, dtype=np.int64)))
    return rows.where(rows["mode"] == at.mode)


@lru_cache(maxsize=8)
def _places(table: Table) -> dict[tuple[Any, ...], NDArray[np.int64]]:
    """Return the row positions of each rank and step, computed once per table."""
    return groups(table["rank"], table["step"])
