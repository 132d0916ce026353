"""`LabelRule`: the base of rules about labels, which returns labels and predictions of a step as integers."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np

from holter.rules import Window, parameter, rule_class
from holter.rules.patterns.collections import has_role, matches
from holter.rules.patterns.tensor_values import contents, shaped
from holter.rules.patterns.tensors import TensorRule

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from holter.rules.engine.step_rows import StepRows

MOST_CLASSES = 4096
"""More distinct labels are not a classification."""
_ROLES = {"labels": ("labels",), "predictions": ("predictions", "logits")}
Patterns = tuple[str, ...] | None


class LabelPairs(NamedTuple):
    """The labels of one step, and their predictions if they were recorded."""

    tensor: str
    labels: NDArray[np.int64]
    predictions: NDArray[np.int64] | None


@rule_class
class LabelRule(TensorRule):
    """Compares labels with predictions."""

    reads: ClassVar[tuple[str, ...]] = ("tensors", "tensor_values")
    kinds = ("value", "shape")
    save = "role=labels@10 --save role=logits@10:values"

    argmax: bool | None = parameter(None, classic=False)
    """Whether predictions are scores of classes on their last axis; none = found from their shape."""
    ignore_index: int = parameter(-100)
    """Labels with this value are left out."""

    def name_patterns(self) -> tuple[Patterns, Patterns]:
        """Return the patterns of the names of labels and of predictions; None to find them by role."""
        raise NotImplementedError

    def wants(self, name: str, role: str) -> bool:
        """Return whether a tensor holds labels or predictions."""
        return not matches(self.exclude_regex, name) and self._kind(name, role) is not None

    def _kind(self, name: str, role: str) -> str | None:
        for kind, patterns in zip(_ROLES, self.name_patterns(), strict=True):
            if has_role(role, _ROLES[kind]) if patterns is None else matches(patterns, name):
                return kind
        return None

    def pairs(self, window: Window, at: StepRows, *, classes: int | None = None) -> LabelPairs | None:
        """Return the labels and predictions of a step; without labels, report the missing data."""
        roles = {row["name"]: row["role"] for row in self.rows(window, at)}
        found = {
            name: tensor
            for name, kinds in contents(at.tables["tensor_values"]).items()
            if name in roles and (tensor := shaped(kinds)) is not None
        }
        labels = [n for n in found if self._kind(n, roles[n]) == "labels"]
        predictions = [n for n in found if self._kind(n, roles[n]) == "predictions"]
        if not labels or found[labels[0]].size == 0:
            self.withdraw(window, at)
            window.insufficient("no_match", f"no values of labels were recorded; run with --save {self.save}")
            return None
        true = found[labels[0]].ravel()
        if not np.all(
            (np.abs(true) < 2**53) & (true == np.rint(true))
        ):  # for example targets of a regression
            self.withdraw(window, at)
            window.insufficient("no_match", f"{labels[0]} holds values that are no classes")
            return None
        guessed = None
        if predictions:
            guessed = self._classes(found[predictions[0]], len(true), classes)
            if len(guessed) != len(true):
                text = f"{labels[0]} has {len(true)} elements, {predictions[0]} {len(guessed)}"
                self.withdraw(window, at)
                window.insufficient("shape_missing", text)
                return None
        whole = np.rint(true).astype(np.int64)
        keep = whole != self.ignore_index
        if guessed is not None:
            keep &= np.abs(guessed) < 2**53
            return LabelPairs(labels[0], whole[keep], np.rint(guessed[keep]).astype(np.int64))
        return LabelPairs(labels[0], whole[keep], None)

    def _classes(self, scores: NDArray[np.float64], labels: int, classes: int | None) -> NDArray[np.float64]:
        """Return the predicted class of each label, from classes or from scores on the last axis."""
        are_scores = (
            scores.ndim > 1
            and scores.shape[-1] > 1
            and scores.size == labels * scores.shape[-1]
            and classes in (None, scores.shape[-1])
        )
        if self.argmax or (self.argmax is None and are_scores):
            # Scores that are not finite never win.
            best = np.argmax(np.nan_to_num(scores, nan=-np.inf), axis=-1)
            return np.asarray(best, dtype=np.float64).ravel()
        return np.nan_to_num(scores.ravel(), nan=2.0**60, posinf=2.0**60, neginf=-(2.0**60))
