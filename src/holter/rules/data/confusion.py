"""Confusion: the model confuses classes more often than allowed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from holter.rules import Window, parameter, rule_class
from holter.rules.patterns.labels import LabelRule, Patterns
from holter.rules.patterns.tensor_issues import TensorFinding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from holter.rules.engine.step_rows import StepRows

MOST = 1024
"""Largest number of classes of a matrix."""


@rule_class
class Confusion(LabelRule):
    """Too few labels of a class are predicted right, or too many of them as another class."""

    severity = "info"
    formula = (
        "with C[label, prediction]: C[i, i] / sum < min_diag, or C[j, i] / sum > max_off_diag; the sum is "
        "over the column, the row, or each in turn (normalize)"
    )
    advice = (
        "Look at examples of the listed pairs of classes: their labels may be wrong, or the classes too "
        "similar. Weight these classes higher or sample them more often."
    )
    packs = ("sagemaker",)

    category_no: int | None = parameter(None, low=2, high=MOST)
    """Number of classes; none = one more than the largest label or prediction."""
    labels: str | None = parameter(None, classic="labels")
    """Name of the label tensor; none = found by role."""
    predictions: str | None = parameter(None, classic="predictions")
    """Name of the prediction tensor; none = found by role."""
    labels_collection: str = parameter("labels")
    """Collection that is searched for labels when no tensor has the given name."""
    predictions_collection: str = parameter("predictions")
    """Collection that is searched for predictions when no tensor has the given name."""
    min_diag: float | None = parameter(None, classic=0.9, low=0, high=1)
    """Smallest share of a class that must be predicted right; none = not checked."""
    max_off_diag: float | None = parameter(None, classic=0.1, low=0, high=1)
    """Largest share of a class that may be predicted as another; none = not checked."""
    min_samples: int = parameter(20, classic=1, low=1, unit="labels")
    """Labels per class to collect over saved steps before judging; 1 = judge each step alone."""
    normalize: str = parameter("both", classic="column", choices=("column", "row", "both"))
    """Shares of each prediction (column), of each label (row), or both."""

    def name_patterns(self) -> tuple[Patterns, Patterns]:
        """Return the patterns that find labels and predictions by name."""
        labels, predictions = (
            None if name is None else (f"^{re.escape(name)}$", f"^{re.escape(collection)}$")
            for name, collection in (
                (self.labels, self.labels_collection),
                (self.predictions, self.predictions_collection),
            )
        )
        return labels or self.tensor_regex, predictions

    def judge(self, window: Window, at: StepRows) -> Iterator[TensorFinding]:
        """Count pairs of label and prediction; judge them once there are enough of each class."""
        if self.min_diag is None and self.max_off_diag is None:
            window.insufficient("no_input", "no limit is set; set min_diag or max_off_diag")
            return
        pairs = self.pairs(window, at, classes=self.category_no)
        if pairs is None or pairs.predictions is None:
            text = f"no values of predictions were recorded; run with --save {self.save}"
            window.insufficient("no_match", text)
            return
        true, guessed = pairs.labels, pairs.predictions
        inside = (true >= 0) & (guessed >= 0) & (np.maximum(true, guessed) < (self.category_no or MOST))
        cells, new = np.unique(true[inside] * MOST + guessed[inside], return_counts=True)
        kept: dict[str, dict[str, int]] = window.state.setdefault("cells", {})
        counts = kept.get(str(at.rank), {})
        for cell, count in zip(cells.tolist(), new.tolist(), strict=True):
            counts[str(cell)] = counts.get(str(cell), 0) + count
        if not counts:
            return
        matrix = self._matrix(counts)
        need = 1 if self.min_samples == 1 else self.min_samples * int((matrix.sum(axis=1) > 0).sum())
        if matrix.sum() < need:
            kept[str(at.rank)] = counts
            self.withdraw(window, at)
            have = float(matrix.sum())
            window.insufficient("too_few_points", "too few labels yet", have=have, need=need)
            return
        kept.pop(str(at.rank), None)
        yield from self._judged(matrix, pairs.tensor)

    def _matrix(self, counts: dict[str, int]) -> NDArray[np.float64]:
        places = np.array([divmod(int(cell), MOST) for cell in counts])
        size = self.category_no or int(places.max()) + 1
        matrix = np.zeros((size, size))
        matrix[places[:, 0], places[:, 1]] = list(counts.values())
        return matrix

    def _judged(self, matrix: NDArray[np.float64], tensor: str) -> Iterator[TensorFinding]:
        ways = {"column": (0,), "row": (1,), "both": (0, 1)}[self.normalize]
        for axis in ways:
            by = "by_label" if axis else "by_prediction"
            sums = matrix.sum(axis=axis)
            shares = matrix / np.maximum(np.expand_dims(sums, axis), 1.0)
            # A class that has labels but is never predicted is never right in either direction.
            asked = (sums > 0) | (matrix.sum(axis=1) > 0)
            right = np.where(asked, np.diag(shares), np.inf)
            worst = int(right.argmin())
            if self.min_diag is not None and right[worst] < self.min_diag:
                what = f"share of class {worst} that is predicted right"
                code = f"diagonal_{by}"
                yield TensorFinding(
                    tensor, what, float(right[worst]), "<", self.min_diag, code=code, role="labels"
                )
            off = shares * (1 - np.eye(len(shares)))
            label, guess = (int(i) for i in np.unravel_index(off.argmax(), off.shape))
            if self.max_off_diag is not None and off[label, guess] > self.max_off_diag:
                what = f"share of class {label} predicted as class {guess}"
                share = float(off[label, guess])
                yield TensorFinding(
                    tensor, what, share, ">", self.max_off_diag, code=f"off_{by}", role="labels"
                )
