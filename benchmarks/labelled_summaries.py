"""Precision and recall of the thresholds of rules on labelled summaries of Keras trainings.

    python benchmarks/labelled_summaries.py 1st_Level_UnderSampled.csv

The file is part of DEFault (`SigmaJahan/DEFault-DNN-Debugging`, folder `g_Dataset`): one row for each of
9,588 trainings, with the mean of each statistic over the epochs, labelled `correct` or `buggy` (faults were
injected). A rule of holter judges values of one step or curves; here its threshold judges the mean. `RULES`
names the columns that stand in for what a rule reads. Rules whose input has no column are not scored.
"""

from __future__ import annotations

import argparse
import csv
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from holter.rules import catalogue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Summary = dict[str, float]


class Proxy(NamedTuple):
    """A rule, and the condition on a summary that stands in for its own."""

    rule: str
    condition: str
    judges: Callable[[Summary, float], bool | None]
    """Tells whether a summary exceeds a threshold; None if it lacks what it needs."""
    threshold: float
    others: tuple[float, ...] = ()
    """Other thresholds to compare with."""


def default(rule: str, name: str, profile: str = "modern") -> float:
    """Return the default of a parameter."""
    return float(catalogue()[rule].of({}, defaults=profile).values()[name])


LEAST_GRADIENT = default("VanishingGradient", "threshold")


def finite(one: Summary, *names: str) -> bool:
    """Return whether a summary has all these numbers."""
    return all(math.isfinite(one[name]) for name in names)


def loss_lost(one: Summary, _: float) -> bool | None:
    """Tell whether a loss was NaN or infinite: such a mean is missing."""
    return not finite(one, "train_loss", "val_loss")


def counted(*names: str) -> Callable[[Summary, float], bool | None]:
    """Return the condition that the mean of one of the counts is above the threshold."""
    return lambda one, most: max(one[name] for name in names) > most if finite(one, *names) else None


def vanishing(one: Summary, share: float) -> bool | None:
    """Tell whether the smallest gradient is below a share of the median one, or below any use."""
    if not finite(one, "gradient_min", "gradient_median"):
        return None
    return one["gradient_min"] < max(share * one["gradient_median"], LEAST_GRADIENT)


def uneven(one: Summary, decades: float) -> bool | None:
    """Tell whether the largest and the smallest gradient that is not zero differ by so many decades."""
    if not finite(one, "gradient_min", "gradient_max") or one["gradient_min"] <= 0:
        return None
    return math.log10(one["gradient_max"] / one["gradient_min"]) >= decades


def overfits(one: Summary, share: float) -> bool | None:
    """Tell whether the validation loss exceeds the training loss by a share of it."""
    if not finite(one, "train_loss", "val_loss"):
        return None
    return one["val_loss"] - one["train_loss"] > share * max(abs(one["train_loss"]), 1e-12)


def no_gradient(one: Summary, _: float) -> bool | None:
    """Tell whether all gradients are zero."""
    return one["gradient_max"] == 0 if finite(one, "gradient_max") else None


RULES = [
    Proxy("NonFiniteLoss", "`train_loss` or `val_loss` is missing", loss_lost, 0),
    Proxy("NonFiniteGradient", "`nan_gradients_count` > 0", counted("nan_gradients_count"), 0),
    Proxy(
        "ExplodingTensor",
        "`nan_gradients_count` or `nan_weight_count` > 0",
        counted("nan_gradients_count", "nan_weight_count"),
        0,
    ),
    Proxy("NothingLearned", "`gradient_max` = 0", no_gradient, 0),
    Proxy(
        "VanishingGradient",
        "`gradient_min` < threshold x `gradient_median`, or < 1e-7",
        vanishing,
        default("VanishingGradient", "relative_threshold"),
        (1e-1, 1e-2, 1e-3, 1e-5, 1e-6, 0),
    ),
    Proxy(
        "UnevenGradientScale",
        "`gradient_max` / `gradient_min`, decades",
        uneven,
        default("UnevenGradientScale", "warn"),
        (1, 2, default("UnevenGradientScale", "info"), 4, 6, 7, 8),
    ),
    Proxy(
        "Overfit",
        "(`val_loss` - `train_loss`) / |`train_loss`|",
        overfits,
        default("Overfit", "ratio_threshold"),
        (default("Overfit", "ratio_threshold", "classic"), 0.5, 1, 2, 5, 10, 100),
    ),
    Proxy(
        "DeadRelu", "`dying_relu`: share of epochs; over 70 % zeros", counted("dying_relu"), 0, (0.5, 0.99)
    ),
]
"""What corresponds. DEFault's other columns, such as accuracies, have no rule with a threshold."""


def read(path: Path) -> Iterable[tuple[Summary, bool]]:
    """Yield each summary with whether it is buggy; rows without any statistic are left out."""
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            label = row.pop("label")
            values = {name: float(value) if value else math.nan for name, value in row.items()}
            if not math.isnan(values["epoch"]):
                yield values, label == "buggy"


def score(proxy: Proxy, threshold: float, rows: list[tuple[Summary, bool]]) -> dict[str, Any]:
    """Count what a threshold flags."""
    judged = [(found, buggy) for one, buggy in rows if (found := proxy.judges(one, threshold)) is not None]
    flagged = [buggy for found, buggy in judged if found]
    buggy = sum(buggy for _, buggy in judged)
    return {
        "judged": len(judged),
        "flagged": len(flagged),
        "healthy": len(flagged) - sum(flagged),
        "precision": sum(flagged) / len(flagged) if flagged else math.nan,
        "recall": sum(flagged) / buggy if buggy else math.nan,
    }


def main() -> None:
    """Print one row for each rule, then one for each other threshold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path", type=Path)
    rows = list(read(parser.parse_args().path))
    buggy = sum(sick for _, sick in rows)
    print(f"{len(rows):,} summaries with statistics, {buggy:,} of them buggy ({buggy / len(rows):.1%})")
    for title, proxies in (
        ("thresholds of holter", [(proxy, (proxy.threshold,)) for proxy in RULES]),
        ("other thresholds", [(proxy, proxy.others) for proxy in RULES]),
    ):
        print(f"\n| rule ({title}) | proxy | threshold | judged | flagged | healthy | precision | recall |")
        print("|---|---|---:|---:|---:|---:|---:|---:|")
        for proxy, thresholds in proxies:
            for threshold in thresholds:
                one = score(proxy, threshold, rows)
                precision = "" if math.isnan(one["precision"]) else f"{one['precision']:.1%}"
                print(
                    f"| `{proxy.rule}` | {proxy.condition} | {threshold:g} | {one['judged']:,} | "
                    f"{one['flagged']:,} | {one['healthy']:,} | {precision} | {one['recall']:.1%} |"
                )


if __name__ == "__main__":
    main()
