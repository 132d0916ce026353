"""NLPSequenceRatio: batches contain too many padding or unknown tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from holter.rules import BadRule, Window, parameter, rule_class
from holter.rules.patterns.tensor_issues import TensorFinding
from holter.rules.patterns.tensor_values import contents
from holter.rules.patterns.tensors import TensorRule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holter.rules.engine.step_rows import StepRows


@rule_class
class NLPSequenceRatio(TensorRule):
    """A token without information, such as padding, takes up too much of the input."""

    reads = ("tensors", "tensor_values")
    formula = "100 x tokens of a value / all tokens of the last batches > the threshold of that value"
    advice = (
        "Batch sequences of similar length, or pack several into one. For unknown tokens check the "
        "vocabulary."
    )
    packs = ("sagemaker",)
    roles = ("token_ids",)
    statistics = ("zeros",)
    kinds = ("value",)
    save = "inputs@10"

    tensor_regex: tuple[str, ...] | None = parameter(None, classic=(".*embedding0_input_0",))
    """Patterns that find token ids; none = by role."""
    token_values: tuple[float, ...] = parameter((0.0,))
    """Token values that are counted, such as padding and unknown."""
    token_thresholds_percent: tuple[float, ...] = parameter((30.0,), classic=(50.0,), unit="%")
    """Largest allowed share of each of these tokens."""
    batches: int = parameter(50, classic=1, low=1, unit="batches")
    """Number of recent saved batches that are counted together; at least a fifth must exist."""

    def __post_init__(self) -> None:
        TensorRule.__post_init__(self)
        if len(self.token_values) != len(self.token_thresholds_percent) or not self.token_values:
            limits = list(self.token_thresholds_percent)
            raise BadRule(
                f"NLPSequenceRatio: token_thresholds_percent={limits!r} is not valid; "
                f"it takes one number for each of token_values={list(self.token_values)!r}"
            )

    def judge(self, window: Window, at: StepRows) -> Iterator[TensorFinding]:
        """Count the tokens of each input and of the previous batches."""
        values = contents(at.tables["tensor_values"])
        past: dict[str, list[list[int]]] = window.state.setdefault("past", {})
        for row in self.rows(window, at):
            tokens = values.get(row["name"], {}).get("value")
            if tokens is not None and len(tokens):
                counts = [*(int((tokens == value).sum()) for value in self.token_values), len(tokens)]
            elif self.token_values == (0.0,):
                counts = [int(row["zeros"]), int(row["count"])]
            else:
                text = f"no values of {row['name']} were recorded; run with --save {self.save}"
                window.insufficient("no_match", text)
                continue
            key = f"{at.rank}/{at.mode}/{row['name']}"
            past[key] = [*past.get(key, []), counts][-self.batches :]
            if len(past[key]) * 5 >= self.batches:
                yield from self._judged(np.array(past[key]).sum(axis=0).tolist(), row["name"], row["role"])

    def _judged(self, counts: list[int], name: str, role: str) -> Iterator[TensorFinding]:
        for value, limit, count in zip(
            self.token_values, self.token_thresholds_percent, counts, strict=False
        ):
            share = 100.0 * count / counts[-1]
            if share > limit:
                what = f"share of token {value:g}"
                yield TensorFinding(name, what, share, ">", limit, unit=" %", code=f"{value:g}", role=role)
