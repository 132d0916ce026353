"""`LossRule`: the base of rules about losses, which selects losses and returns their points in order."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from holter.rules import Issue, Issues, State, Window, parameter, rule_class
from holter.rules.patterns.collections import matches, tested
from holter.rules.patterns.logged import ANY_LOSS
from holter.rules.patterns.tensors import MODES, TensorRule

if TYPE_CHECKING:
    from numpy.typing import NDArray

_METRIC = r"^(train|valid|validation|val|eval|test)-[a-zA-Z0-9@._-]+$"
"""The names of XGBoost's evaluation metrics."""
_GREATER_IS_BETTER = r"(?i)auc|-map|acc(uracy)?$|(^|[^a-z])f1"
_OF_EVALUATION = r"(?i)(^|[^a-z])(val|valid|validation|eval|evaluation|test)([^a-z]|$)"
_OF_TRAINING = r"(?i)(^|[^a-z])(train|training)([^a-z]|$)"


class Points(NamedTuple):
    """New finite values of one logged number on one rank in one mode, in the order of time."""

    rank: int
    name: str
    mode: str
    node: str
    time: NDArray[np.int64]
    step: NDArray[np.int64]
    value: NDArray[np.float64]

    @property
    def about(self) -> str:
        """The name without words for the mode, so that training and evaluation match."""
        bare = re.sub(_OF_TRAINING, r"\1\3", re.sub(_OF_EVALUATION, r"\1\3", self.name))
        return bare.strip("-_/. ") or self.name

    def until(self, end: int) -> Points:
        """Return the points before an index."""
        return self._replace(time=self.time[:end], step=self.step[:end], value=self.value[:end])


@rule_class
class LossRule(TensorRule):
    """Judges logged losses, each rank by itself, point by point."""

    reads: ClassVar[tuple[str, ...]] = ("scalars",)

    tensor_regex: tuple[str, ...] | None = parameter(None)
    """Patterns that find logged numbers anywhere in their names; none = what is called a loss."""
    collection_names: tuple[str, ...] | None = parameter(None)
    """Accepted for the configurations that have it; logged numbers have no collections but losses."""

    def wants(self, name: str, role: str) -> bool:
        """Return whether a logged number is a loss to judge; metrics for which greater is better are not."""
        if matches(self.exclude_regex, name) or re.search(_GREATER_IS_BETTER, name):
            return False
        return matches(self.tensor_regex or (ANY_LOSS, _METRIC), name)

    def points(self, window: Window) -> list[Points]:
        """Return the new points of each series, by rank, name and mode; counts values that are not finite."""
        rows = window.new("scalars")
        if self.ranks != "all":
            wanted = {-1, 0} if self.ranks == "one" else {int(r) for r in self.ranks.split(",")}
            rows = rows.where(np.isin(rows["rank"], sorted(wanted)))
        rows = rows.where(tested(rows["name"], lambda name: self.wants(name, "loss")))
        finite = np.isfinite(rows["value"])
        if not finite.all():
            skipped = int((~finite).sum())
            window.state["skipped_nonfinite"] = window.state.get("skipped_nonfinite", 0) + skipped
            rows = rows.where(finite)
        if window.state.get("skipped_nonfinite"):
            window.details["skipped_nonfinite"] = window.state["skipped_nonfinite"]
        return self._series(rows)

    def _series(self, rows: Any) -> list[Points]:
        codes: dict[tuple[int, str, str], int] = {}
        keys = zip(rows["rank"].tolist(), rows["name"].tolist(), rows["mode"].tolist(), strict=True)
        which = np.fromiter((codes.setdefault(k, len(codes)) for k in keys), dtype=np.int64, count=rows.rows)
        found = []
        for (rank, name, mode), code in sorted(codes.items()):
            mine = rows.where(np.flatnonzero(which == code))
            mine = mine.where(np.lexsort((mine["value"], mine["step"], mine["time"])))
            step = mine["step"].astype(np.int64)
            node = min(str(n) for n in mine["node"].tolist())
            found.append(Points(rank, name, _mode(name, mode), node, mine["time"], step, mine["value"]))
        return found

    def evaluate(self, window: Window) -> Issues:
        """Judge the new points of each loss; points of training and evaluation of one loss come together."""
        known: dict[str, State] = window.state.setdefault("series", {})
        new = self.points(window)
        if not new and known and not window.job.ended:
            window.idle = True
            return
        groups: dict[str, list[Points]] = {key: [] for key in known} if window.job.ended else {}
        for points in new:
            groups.setdefault(f"{points.rank}/{points.about}", []).append(points)
        for key, group in sorted(groups.items()):
            yield from self.judge_group(window, group, known.setdefault(key, {}))
        if not window.points and window.lack is None:
            self.lacking(window, known=bool(known))

    def judge_group(self, window: Window, group: list[Points], state: State) -> Issues:
        """Judge new points of one loss, none at the end of the job; `state` is kept for this loss."""
        raise NotImplementedError

    def point_issue(self, points: Points, at: int, summary: str, **about: Any) -> Issue:
        """Make an issue about one point of a series."""
        return self.issue(
            summary,
            tensor=points.name,
            rank=points.rank,
            node=points.node or None,
            step_end=int(points.step[at]),
            time_end=int(points.time[at]),
            **about,
        )

    def due(self, step: int) -> bool:
        """Return whether a step is to be judged."""
        return step >= self.start_step and (self.end_step is None or step < self.end_step)

    def lacking(self, window: Window, *, known: bool, text: str = "") -> None:
        """Report why no point was judged."""
        if known:
            window.idle = not window.job.ended
            window.insufficient("too_few_points", text or "too few values of a loss were logged")
        else:
            wanted = ", ".join(self.tensor_regex or ()) or "loss"
            window.insufficient("no_match", f"no logged number is called like {wanted}; log one each step")


def _mode(name: str, mode: str) -> str:
    if mode == "eval" or re.search(_OF_EVALUATION, name):
        return "eval"
    if mode in MODES and mode != "global":
        return mode
    return "train" if re.search(_OF_TRAINING, name) else "global"
