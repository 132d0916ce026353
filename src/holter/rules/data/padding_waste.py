"""PaddingWaste: batches consist mostly of padding."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from holter.rules import Issues, Window, parameter, rule_class
from holter.rules.engine.levels import grade
from holter.rules.patterns.logged import PatternRule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from holter.schema.table import Table

_LENGTHS = 2000


@rule_class
class PaddingWaste(PatternRule):
    """Much of the token batches is padding, which costs as much as text."""

    reads = ("tensors", "tensor_values")
    formula = (
        "mean share of padding in the last `batches` batches >= info, warn, or critical, at two batches in "
        "a row; padding is pad_id, or a token that ends (or begins) rows in runs of two or more"
    )
    advice = (
        "Group samples by length, or pack several into one row; the evidence shows how much padding would "
        "remain."
    )
    packs = ("convergence",)

    info: float = parameter(0.15, low=0, high=1)
    """Share of padding from which the rule reports a note."""
    warn: float = parameter(0.30, low=0, high=1)
    """Share of padding that is a warning."""
    critical: float = parameter(0.60, low=0, high=1)
    """Share of padding that is critical."""
    batches: int = parameter(50, low=1, high=1000)
    """Number of recent batches that are judged together."""
    pad_id: int | None = parameter(None)
    """Token that is padding; none = found from the ends of the rows."""
    names: str = parameter(r"(?i)(^|[^a-z])(input|token)_?ids?([^a-z]|$)", aliases=("tensor_regex",))
    """Pattern of further tensors with token ids, in addition to those that the recorder marks."""

    def evaluate(self, window: Window) -> Issues:
        """Measure each batch, and judge the last ones."""
        state, tensors = window.state, window.new("tensors")
        ids = set(tensors["name"][tensors["role"] == "token_ids"].tolist())
        state["ids"] = sorted({*state.get("ids", []), *ids})
        for name, step, batch in _batches(window.new("tensor_values")):
            if name in state["ids"] or re.search(self.names, name):
                yield from self._batch(window, name, step, batch)
        if "batches" not in state:
            text = "no token ids are recorded; use --save inputs@10 where their values are small enough"
            window.insufficient("no_input", text)
        elif not window.points:
            most = max(len(one["shares"]) for one in state["batches"].values())
            window.insufficient("too_few_points", "too few batches yet", have=most, need=self.batches)

    def _batch(self, window: Window, name: str, step: int, batch: NDArray[np.int64]) -> Issues:
        known = window.state.setdefault("batches", {})
        one = known.setdefault(name, {"shares": [], "lengths": [], "steps": [], "held": 0})
        lengths = _lengths(batch, self.pad_id)
        one["shares"].append(float(1 - lengths.mean() / batch.shape[1]))
        one["steps"].append(step)
        one["lengths"].extend(lengths.tolist())
        del one["shares"][: -self.batches], one["steps"][: -self.batches], one["lengths"][:-_LENGTHS]
        if len(one["shares"]) < self.batches:
            return
        window.judged(1)
        share = float(np.mean(one["shares"]))
        one["held"] = one["held"] + 1 if share >= self.info else 0
        if one["held"] < 2:
            return
        severity = grade(share, info=self.info, warning=self.warn, critical=self.critical)
        left = _bucketed(np.array(one["lengths"]), len(batch))
        yield self.issue(
            f"{share:.0%} of {name} is padding; with samples bucketed by length it would be {left:.0%}",
            severity=severity,
            tensor=name,
            step_start=one["steps"][0],
            step_end=step,
            evidence={
                "padding_share": share,
                "padding_share_bucketed": left,
                "median_length": float(np.median(one["lengths"])),
                "row_length": int(batch.shape[1]),
            },
        )


def _batches(rows: Table) -> Iterator[tuple[str, int, NDArray[np.int64]]]:
    """Yield the two-dimensional tensors that were saved with their values: name, step, values."""
    rows = rows.where(np.isin(rows["kind"].astype(str), ("value", "shape")) & (rows["mode"] != "predict"))
    if not rows.rows:
        return
    names, where = np.unique(rows["name"].astype(str), return_inverse=True)
    shape = rows["kind"] == "shape"
    order = np.lexsort((rows["value"], rows["position"], shape, where, rows["rank"], rows["time"]))
    rows, where, shape = rows.where(order), where[order], shape[order]
    keys = np.column_stack([rows["time"], rows["rank"].astype(np.int64), where])
    first = np.flatnonzero(np.any(np.diff(keys, axis=0, prepend=keys[:1] - 1) != 0, axis=1))
    for low, high in zip(first, [*first[1:], rows.rows], strict=True):
        values, sizes = (rows["value"][low:high][mask] for mask in (~shape[low:high], shape[low:high]))
        whole = len(sizes) == 2 and np.isfinite(sizes).all() and np.isfinite(values).all()
        if whole and sizes.min() >= 1 and sizes[0] * sizes[1] == len(values):
            batch = values.astype(np.int64).reshape(int(sizes[0]), int(sizes[1]))
            yield str(names[where[low]]), int(rows["step"][low]), batch


def _lengths(batch: NDArray[np.int64], pad: int | None) -> NDArray[np.int64]:
    """Return the number of tokens of each row without padding."""
    if pad is not None:
        return np.asarray((batch != pad).sum(axis=1))
    best = np.full(len(batch), batch.shape[1])
    for rows in (batch[:, ::-1], batch):  # padding at the end, or at the beginning
        ends = Counter(rows[:, 0].tolist()).most_common(1)[0][0]
        other = rows != ends
        run = np.where(other.any(axis=1), other.argmax(axis=1), batch.shape[1])
        lengths = batch.shape[1] - np.where(run >= 2, run, 0)
        best = lengths if lengths.sum() < best.sum() else best
    return np.asarray(best)


def _bucketed(lengths: NDArray[np.int64], rows: int) -> float:
    """Return the share of padding if batches held samples of similar length."""
    ordered = np.sort(lengths)
    starts = np.arange(0, len(ordered), rows)
    longest = np.maximum.reduceat(ordered, starts)
    cells = float((longest * np.diff(np.append(starts, len(ordered)))).sum())
    return 1 - float(ordered.sum()) / cells if cells else 0.0
