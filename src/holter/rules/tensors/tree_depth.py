"""TreeDepth: trees are deeper than allowed."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from holter.rules import Window, parameter, rule_class
from holter.rules.patterns.tensor_issues import TensorFinding
from holter.rules.patterns.tensor_values import contents
from holter.rules.patterns.tensors import TensorRule

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    from numpy.typing import NDArray

    from holter.rules.engine.step_rows import StepRows


@rule_class
class TreeDepth(TensorRule):
    """A tree of the model has more levels than allowed."""

    reads = ("tensors", "tensor_values")
    severity = "info"
    formula = (
        "levels below the root > depth; counted along the links of the nodes, otherwise floor(log2(largest "
        "node id + 1))"
    )
    advice = "Limit max_depth, or require more samples or more gain per split: deep trees learn noise."
    packs = ("sagemaker",)
    statistics = ("max",)
    kinds = ("value",)
    save = "trees@10"
    saves = True

    tensor_regex: tuple[str, ...] | None = parameter((r"^trees/(Node|Tree|Yes|No)$",))
    """Patterns that find the nodes of trees, and the links between them."""
    depth: float = parameter(10.0, classic=4.0, low=0, unit="levels")
    """Largest allowed depth of a tree."""
    use_links: bool = parameter(True, classic=False)
    """Follow the recorded links, because not every way to grow a tree numbers its nodes by level."""

    def judge(self, window: Window, at: StepRows) -> Iterator[TensorFinding]:
        """Compute the depth of the deepest tree of a step."""
        values = {
            name: kinds["value"] for name, kinds in contents(at.tables["tensor_values"]).items() if kinds
        }
        rows = {row["name"].rpartition("/")[2]: row for row in self.rows(window, at)}
        node = rows.get("Node")
        if node is None:
            self.withdraw(window, at)
            window.insufficient("no_match", f"trees/Node was not recorded; run with --save {self.save}")
            return
        levels = self._linked(values, node["name"].rpartition("/")[0]) if self.use_links else None
        if levels is None:
            largest = float(node["max"])
            if not math.isfinite(largest) or largest < 0:
                return
            levels = int(largest + 1).bit_length() - 1
        if levels > self.depth:
            yield TensorFinding(
                tensor=node["name"], what="depth", value=float(levels), comparator=">", threshold=self.depth
            )

    def _linked(self, values: dict[str, NDArray[np.float64]], folder: str) -> int | None:
        """Return the depth along the links; None if they were not recorded or do not form a tree."""
        node, yes, no = (values.get(f"{folder}/{name}") for name in ("Node", "Yes", "No"))
        if node is None or yes is None or no is None or not len(node) == len(yes) == len(no):
            return None
        tree = values.get(f"{folder}/Tree")
        trees = [0.0] * len(node) if tree is None or len(tree) != len(node) else tree.tolist()
        rows = zip(trees, node.tolist(), yes.tolist(), no.tolist(), strict=True)
        children = {(t, n): (y, o) for t, n, y, o in rows}
        linked = {(t, c) for (t, _), pair in children.items() for c in pair if math.isfinite(c)}
        level = [key for key in children if key not in linked]
        for depth in range(len(children)):
            level = [(t, c) for t, n in level for c in children.get((t, n), ()) if math.isfinite(c)]
            if not level:
                return depth
        return None
