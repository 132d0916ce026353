"""Counts the operators of profiled steps of a CPU, and finds the lines that issue them by stack samples."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from holter.analysis.grouping import coded, groups
from holter.analysis.host.operator_tree import host
from holter.analysis.steps.own_code import sampled_line
from holter.schema.phases import Phase
from holter.schema.table import Table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from holter.analysis.device.work import Ints
    from holter.analysis.host.operator_tree import Host

SMALL_NS = 50_000
"""Shorter operators, as the profiler sees them, are small: their own cost outweighs their work."""
MIN_SAMPLES = 3
"""Fewer samples name no line."""
_ENOUGH = 10
"""With so many samples in small operators, the others do not count: the loop may do other work, too."""
_ITEM = ("aten::item",)
_BACKWARD = float(Phase.BACKWARD)
"""Value of samples inside a backward pass."""
_WAITS = [float(phase) for phase in (Phase.DATA_LOADING, Phase.COMMUNICATION, Phase.CHECKPOINT)]
"""Values of samples that show a wait, not the issue of operators."""
_LINE = re.compile(r":\d+\)$")
_PRINTS = "torch/_tensor_str.py:"


@dataclass(frozen=True, slots=True)
class OperatorLine:
    """The busiest line of a function of the training, and the function's share of some samples.

    For the script itself, which holds all of the loop, it is the line's share.
    """

    place: str
    """`function (file:line)`."""
    pct: float


@dataclass(frozen=True, kw_only=True)
class OperatorGroup:
    """Operators that take a share of the time."""

    name: str
    pct: float
    """Percent of the profiled steps in the operators themselves."""
    shapes: str
    """Shapes of the inputs of most of them; empty if they are unknown."""
    line: OperatorLine | None


@dataclass(frozen=True, kw_only=True)
class OperatorLoad:
    """The operators of profiled steps. Those inside of others are not counted."""

    per_step: float
    small_per_step: float
    large_ms: float
    """Time of a step in operators that are not small."""
    line: OperatorLine | None
    """The line outside the backward pass that issues most operators."""
    top: OperatorGroup | None
    double: OperatorGroup | None
    """Operators on 64-bit floating-point tensors: their sum, and the longest of them."""
    items_per_step: float
    """Values that the training reads from tensors."""
    item_line: OperatorLine | None
    print_line: OperatorLine | None
    """The line that prints tensors, and its share of all samples."""


def operator_load(tables: Mapping[str, Table]) -> OperatorLoad | None:
    """Compute the operators of profiled steps.

    Args:
        tables: `operators`, with `detail` where it is known, `spans` of these steps, and `stacks`, the
            samples of a look.

    Returns:
        None without operators.
    """
    operators, steps = tables["operators"], tables["spans"]
    inside = np.isin(operators["rank"], steps["rank"])
    operators = operators.where(inside & (operators["kind"] == "operator"))
    steps = steps.where(np.isin(steps["rank"], operators["rank"]))
    if not operators.rows or not steps.rows:
        return None
    tree = host({"operators": operators})
    outer = tree.parent < 0
    whole = float(steps["duration"].sum())
    own, words = tree.own_ns, np.array(tree.names, object)[tree.name]
    detail = operators["detail"][tree.row] if "detail" in operators.columns else np.full(len(own), "", object)
    usual = _usual_ns(tree, own, detail)
    small = outer & (usual < SMALL_NS)
    samples = _Samples.of(tables.get("stacks"))
    issued = samples.issues & samples.within(tree.begin[small], tree.end[small])
    by_name = np.bincount(tree.name, own, len(tree.names))
    top = tree.name == int(by_name.argmax())
    double = _double(detail)
    items = np.isin(words, _ITEM)
    return OperatorLoad(
        per_step=float(outer.sum()) / steps.rows,
        small_per_step=float(small.sum()) / steps.rows,
        large_ms=float(usual[outer & ~small].sum()) / 1e6 / steps.rows,
        line=samples.line(issued if issued.sum() >= _ENOUGH else samples.issues),
        top=_share(tree, top, own, whole, detail, samples),
        double=_share(tree, double, own, whole, detail, samples) if double.any() else None,
        items_per_step=float(items.sum()) / steps.rows,
        item_line=samples.line(samples.reads | samples.within(tree.begin[items], tree.end[items])),
        print_line=samples.line(samples.prints, of_all=True),
    )


@dataclass(frozen=True, slots=True)
class _Samples:
    """Stack samples of a look."""

    time: Ints
    weight: NDArray[np.float64]
    place: NDArray[np.object_]
    forward: NDArray[np.bool_]
    """Those outside the backward pass, whose operators the forward pass has caused, and outside of waits."""
    reads: NDArray[np.bool_]
    """Those in `.item()`."""
    prints: NDArray[np.bool_]

    @classmethod
    def of(cls, stacks: Table | None) -> _Samples:
        stacks = Table.empty("spans") if stacks is None else stacks
        lines = [sampled_line(name) for name in stacks["name"].tolist()]
        return cls(
            time=(stacks["time"] + stacks["duration"]).astype(np.int64),
            weight=stacks["duration"].astype(float),
            place=np.array([place for place, _ in lines], object),
            forward=~np.isin(stacks["value"], [_BACKWARD, *_WAITS]),
            reads=np.array([calls.endswith((".item", ".tolist")) for _, calls in lines], bool),
            prints=np.array([_PRINTS in name for name in stacks["name"].tolist()], bool),
        )

    @property
    def issues(self) -> NDArray[np.bool_]:
        return self.forward if self.forward.any() else ~self.forward

    def line(self, which: NDArray[np.bool_], *, of_all: bool = False) -> OperatorLine | None:
        """Return the busiest line of the function of most of some samples, and the function's share."""
        if int(which.sum()) < MIN_SAMPLES:
            return None
        by_function: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for place, weight in zip(self.place[which].tolist(), self.weight[which].tolist(), strict=True):
            by_function[_LINE.sub(")", place)][place] += weight
        lines = max(by_function.values(), key=Counter.total)
        whole = float((self.weight if of_all else self.weight[which]).sum())
        if whole <= 0:
            return None
        place, weight = lines.most_common(1)[0]
        told = weight if place.startswith("<module>") else lines.total()
        return OperatorLine(place, 100.0 * told / whole)

    def within(self, begin: Ints, end: Ints) -> NDArray[np.bool_]:
        """Return the samples that were taken while one of some events ran."""
        order = np.argsort(begin, kind="stable")
        if not len(begin):
            return np.zeros(len(self.time), bool)
        begin, latest = begin[order], np.maximum.accumulate(end[order])
        at = np.searchsorted(begin, self.time, side="right") - 1
        found: NDArray[np.bool_] = (at >= 0) & (self.time < latest[np.maximum(at, 0)])
        return found


def _usual_ns(tree: Host, own: Ints, detail: NDArray[np.object_]) -> NDArray[np.float64]:
    """Return the median time of the outer operators of each name and shape: one may have waited for a core.

    The shapes are those of the longest operator inside.
    """
    root = np.arange(len(own))
    for at, parent in enumerate(tree.parent.tolist()):
        if parent >= 0:
            root[at] = root[parent]
    _, codes = coded(detail)
    known = np.flatnonzero(detail != "")
    known = known[np.argsort(own[known], kind="stable")]  # the longest is written last
    shapes = np.full(len(own), -1)
    shapes[root[known]] = codes[known]
    found = np.zeros(len(own))
    outer = np.flatnonzero(tree.parent < 0)
    for rows in groups(tree.name[outer], shapes[outer]).values():
        found[outer[rows]] = float(np.median(tree.total_ns[outer[rows]]))
    return found


def _share(
    tree: Host,
    which: NDArray[np.bool_],
    own: Ints,
    whole: float,
    detail: NDArray[np.object_],
    samples: _Samples,
) -> OperatorGroup:
    """Return the share of some operators, and name the longest of them."""
    by_kind: Counter[tuple[str, str]] = Counter()
    for name, text, took in zip(tree.words(np.flatnonzero(which)), detail[which], own[which], strict=True):
        by_kind[name, text] += int(took)
    (name, text), _ = by_kind.most_common(1)[0]
    ran = samples.within(tree.begin[which], tree.end[which])
    forward = samples.line(ran & samples.forward)
    return OperatorGroup(
        name=name,
        pct=min(100.0 * float(own[which].sum()) / max(whole, 1.0), 100.0),
        shapes=_shapes(text),
        line=forward or samples.line(ran),
    )


def _double(detail: NDArray[np.object_]) -> NDArray[np.bool_]:
    """Return which operators have a 64-bit floating-point tensor as an input; plain numbers do not count."""
    known: dict[str, bool] = {}
    for text in set(detail.tolist()):
        read = json.loads(text) if text else {}
        pairs = zip(read.get("types") or (), read.get("shapes") or (), strict=False)
        known[text] = any(kind in ("double", "c10::complex<double>") and shape for kind, shape in pairs)
    return np.array([known[text] for text in detail.tolist()], bool)


def _shapes(text: str) -> str:
    """Write the shapes of an operator's tensors: `[256, 512] x [512, 1024]`."""
    shapes = (json.loads(text).get("shapes") or ()) if text else ()
    plain = [shape for shape in shapes if shape and all(isinstance(size, int) for size in shape)]
    return " x ".join(str(shape) for shape in plain[:3])
