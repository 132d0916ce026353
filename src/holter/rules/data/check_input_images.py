"""CheckInputImages: input images are not normalised."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from holter.rules import BadRule, Window, parameter, rule_class
from holter.rules.patterns.tensor_issues import TensorFinding
from holter.rules.patterns.tensor_values import contents, shape, shaped
from holter.rules.patterns.tensors import TensorRule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from holter.rules.engine.step_rows import StepRows
    from holter.schema.table import Row

RAW = 50.0
"""A pixel above this is unscaled: its range is 0 to 255."""


@rule_class
class CheckInputImages(TensorRule):
    """Channels of the input images have a mean far from 0, or a standard deviation far from 1."""

    reads = ("tensors", "tensor_values")
    formula = (
        "over all images so far: |mean of a channel| > threshold_mean; modern: or its standard deviation "
        "outside threshold_std, or a pixel above 50"
    )
    advice = (
        "Subtract the mean and divide by the standard deviation of each channel, both computed over the "
        "training data, before the images enter the model."
    )
    packs = ("sagemaker",)
    roles = ("model_input:",)
    statistics = ("mean", "std", "max")
    kinds = ("value", "shape")
    save = "inputs@10"

    tensor_regex: tuple[str, ...] | None = parameter(
        None, classic=(".*hybridsequential0_input_0",), aliases=("regex",)
    )
    """Patterns that find the images; none = the inputs of the model."""
    threshold_mean: float = parameter(0.2, low=0)
    """Largest absolute mean that a channel may have."""
    threshold_samples: int = parameter(500, low=1, unit="images")
    """Number of images that the rule needs."""
    channel: int | None = parameter(None, classic=1, low=1, high=3)
    """Axis of the channels; none = the first axis of size 1, 3 or 4."""
    threshold_std: tuple[float, ...] | None = parameter((0.1, 5.0), classic=None)
    """Allowed range of a channel's standard deviation; none = not checked."""
    pixel_range_check: bool = parameter(True, classic=False)
    """Report at once when pixels span 0 to 255."""

    def __post_init__(self) -> None:
        TensorRule.__post_init__(self)
        given = self.threshold_std
        if given is not None and (len(given) != 2 or given[0] > given[1]):
            text = f"threshold_std={list(given)!r} is not valid; it takes two numbers, the smaller one first"
            raise BadRule(f"CheckInputImages: {text}")

    def judge(self, window: Window, at: StepRows) -> Iterator[TensorFinding]:
        """Add a step's images to the sums of each channel; judge when there are enough images."""
        values = contents(at.tables["tensor_values"])
        known: dict[str, list[Any]] = window.state.setdefault("images", {})
        for row in self.rows(window, at):
            kinds = values.get(row["name"], {})
            sizes = shape(kinds)
            if sizes is None or len(sizes) != 4 or math.prod(sizes) != row["count"]:
                if sizes is None:
                    self.withdraw(window, at)
                    text = f"the shape of {row['name']} was not recorded; run with --save {self.save}"
                    window.insufficient("shape_missing", text)
                continue
            if self.pixel_range_check and row["max"] > RAW:
                largest = float(row["max"])
                yield TensorFinding(
                    row["name"], "largest pixel", largest, ">", RAW, code="raw", role=row["role"]
                )
            tensor = shaped(kinds)
            new = self._channels(row) if tensor is None else self._moments(tensor)
            # Of each channel: elements, sum, sum of squares.
            images, sums = known.get(f"{at.rank}/{row['name']}") or [0, None]
            if sums is not None and len(sums) == len(new):
                new = new + np.array(sums)
            images += sizes[0]
            known[f"{at.rank}/{row['name']}"] = [images, new.tolist()]
            if images < self.threshold_samples:
                self.withdraw(window, at)
                need = self.threshold_samples
                window.insufficient("too_few_points", "too few images yet", have=images, need=need)
            else:
                yield from self._judged(row, new)

    def _moments(self, tensor: NDArray[np.float64]) -> NDArray[np.float64]:
        axis = self.channel or next((a for a in (1, 3) if tensor.shape[a] in (1, 3, 4)), 1)
        flat = np.moveaxis(tensor, axis, 0).reshape(tensor.shape[axis], -1)
        good = np.isfinite(flat)
        clean = np.where(good, flat, 0.0)
        return np.column_stack([good.sum(axis=1), clean.sum(axis=1), (clean**2).sum(axis=1)]).astype(
            np.float64
        )

    def _channels(self, row: Row) -> NDArray[np.float64]:
        """Return what is known without the pixels: all channels as one; is its mean off, some one is."""
        count, mean = float(row["finite"]), float(row["mean"])
        return np.array([[count, count * mean, count * (float(row["std"]) ** 2 + mean**2)]])

    def _judged(self, row: Row, sums: NDArray[np.float64]) -> Iterator[TensorFinding]:
        count = np.maximum(sums[:, 0], 1.0)
        mean = sums[:, 1] / count
        std = np.sqrt(np.maximum(sums[:, 2] / count - mean**2, 0.0))
        name, role, worst = row["name"], row["role"], float(np.abs(mean).max())
        channels = {"channel_means": mean.tolist(), "channel_stds": std.tolist()}
        found = [("largest |mean|", worst, ">", self.threshold_mean, "mean")]
        if self.threshold_std is not None:
            low, high = self.threshold_std
            found.append(("least deviation", float(std.min()), "<", low, "std"))
            found += [("largest deviation", float(std.max()), ">", high, "std")] if std.min() >= low else []
        for what, value, comparator, limit, code in found:
            if (value > limit) if comparator == ">" else (value < limit):
                what = f"{what} of a channel"
                yield TensorFinding(name, what, value, comparator, limit, "", code, role, more=channels)
