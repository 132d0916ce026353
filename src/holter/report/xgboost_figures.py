"""Charts of the XGBoost training report, from the figures of the rule."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from holter.views.figure import Axis, Figure, Series

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from holter.store.trial import Trial

MOST_SHOWN = 20
"""Features that a chart shows."""


def values_of_metrics(trial: Trial) -> dict[str, dict[str, list[Any]]]:
    """Return `rounds` and `values` of each metric of each evaluation set, such as `train-rmse`."""
    scalars = trial.table("scalars").sorted("step")
    found = {}
    for name in sorted({str(name) for name in scalars["name"].tolist() if "-" in str(name)}):
        rows = scalars.where(scalars["name"] == name)
        found[name] = {"rounds": rows["step"].tolist(), "values": rows["value"].tolist()}
    return found


def metrics(trial: Trial) -> Iterator[Figure]:
    """Draw each metric per round, with a line for each evaluation set."""
    found = values_of_metrics(trial)
    for metric in dict.fromkeys(name.partition("-")[2] for name in found):
        lines = {
            name.partition("-")[0]: dict(zip(of["rounds"], of["values"], strict=True))
            for name, of in found.items()
            if name.partition("-")[2] == metric
        }
        rounds = sorted({step for line in lines.values() for step in line})
        series = [
            Series(data, [line.get(step) for step in rounds], joined=True) for data, line in lines.items()
        ]
        yield Figure(
            title=metric, kind="lines", x=rounds, x_axis=Axis("round"), y_axis=Axis(metric), series=series
        )


def labels(found: Mapping[str, Any]) -> Figure:
    """Draw the number of examples of each class, or of each interval of labels."""
    if "edges" in found:
        return histogram("True labels", found, "label")
    return Figure(
        title="True labels",
        kind="bars",
        x=list(found),
        x_axis=Axis("class"),
        y_axis=Axis("count"),
        series=[Series("examples", list(found.values()))],
    )


def histogram(title: str, counts: Mapping[str, Any], label: str) -> Figure:
    """Draw a histogram of examples."""
    return Figure(
        title=title,
        kind="bars",
        x=counts["edges"],
        x_axis=Axis(label),
        y_axis=Axis("count"),
        series=[Series("examples", counts["counts"])],
    )


def importance(kind: str, shares: Mapping[str, float]) -> Figure:
    """Draw the share of each feature, the most important first."""
    first = dict(list(shares.items())[:MOST_SHOWN])
    return Figure(
        title=f"Importance by {kind}",
        kind="bars",
        x=list(first),
        x_axis=Axis("feature"),
        y_axis=Axis("share", "%"),
        series=[Series(kind, [100 * share for share in first.values()])],
    )


def rounds(title: str, curves: Mapping[str, Any]) -> Figure:
    """Draw the accuracy of each class, or the error in each interval of labels, per saved round."""
    edges = curves.get("label_edges")
    if edges:
        names = [f"{low:.4g} to {high:.4g}" for low, high in itertools.pairwise(edges)]
        columns = list(zip(*curves["values"], strict=True))
    else:
        names = sorted({name for one in curves["values"] for name in one}, key=float)
        columns = [tuple(one.get(name) for one in curves["values"]) for name in names]
        names = [f"class {name}" for name in names]
    series = [Series(name, list(values)) for name, values in zip(names, columns, strict=True)]
    y_axis = Axis("mean absolute error" if edges else "accuracy", top=None if edges else 1.0)
    return Figure(
        title=title, kind="lines", x=curves["steps"], x_axis=Axis("round"), y_axis=y_axis, series=series
    )


def roc(curve: Mapping[str, Any]) -> Figure:
    """Draw the true over the false positive rate, and the line of guessing."""
    return Figure(
        title=f"ROC, area {curve['auc']:.4f}",
        kind="lines",
        x=curve["fpr"],
        x_axis=Axis("false positive rate"),
        y_axis=Axis("true positive rate", top=1.0),
        series=[Series("model", curve["tpr"]), Series("guessing", curve["fpr"])],
    )
