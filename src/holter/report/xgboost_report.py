"""The XGBoost training report: one HTML page, a notebook and a JSON document from the rule's figures."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import msgspec
from markupsafe import Markup

from holter.drawing.figure import figure, style
from holter.drawing.markup import html, tag
from holter.evaluation import evaluate
from holter.pages.data.encoding import encoded
from holter.pages.text.sections import bullets, table
from holter.report import xgboost_figures as figures
from holter.report.formats import notebook_of
from holter.store.trial import Trial
from holter.views.comparison.changes_markdown import escaped
from holter.views.document.cost import details
from holter.views.wording import percent

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from holter.store.documents import Document
    from holter.store.job import JobFolder

RULE = "CreateXgboostReport"
_PAGE = "xgboost_report.html"
_IMBALANCED = 5.0
_OVERFIT = 0.1
_MEANINGS = {
    "gain": "the mean improvement of the loss by its splits",
    "weight": "how many splits use the feature",
    "cover": "the mean number of examples that its splits divide",
    "total_gain": "the sum of the improvements of the loss by its splits",
    "total_cover": "the sum of the examples that its splits divide",
}
_MISSING = (
    "No labels were saved. Pass an evaluation set to the training, and record it with "
    f"`holter run --rule {RULE} -- …`."
)
_AGAIN = f"""from holter.evaluation import evaluate

(rule,) = evaluate(job.trial.folder, [{RULE!r}], record=False).rules
rule["details"]"""
_NOTE = "These insights are hints from this job's figures; check them against your problem."


def wanted(folder: JobFolder) -> bool:
    """Return whether the job's rules ask for this report."""
    return any(rule.get("rule", rule.get("name")) == RULE for rule in folder.manifest().get("rules") or ())


def write(folder: JobFolder) -> str:
    """Write the report into the job, below `rule-output`; return the place of its page. Raises `OSError`."""
    for name, text in files(folder).items():
        folder.place.write(f"rule-output/{RULE}/{name}", text.encode())
    return f"{folder.url}/rule-output/{RULE}/{_PAGE}"


def files(folder: JobFolder) -> dict[str, str]:
    """Return the page, the notebook and the JSON document by their file names."""
    trial = Trial(folder)
    found = document(folder, trial)
    return {
        _PAGE: page(folder, trial, found),
        "xgboost_report.ipynb": json.dumps(notebook(folder, found), ensure_ascii=False, indent=1) + "\n",
        "xgboost_report.json": msgspec.json.format(encoded(found), indent=2).decode() + "\n",
    }


def document(folder: JobFolder, trial: Trial) -> Document:
    """Return all numbers of the report: figures of the rule, and the hyperparameters of the model."""
    ran = [rule for rule in folder.evaluations().get("rules") or () if rule.get("rule") == RULE]
    if not ran:
        ran = evaluate(folder, [RULE], record=False).rules
    settings = [one.get("settings") for one in details(trial.table("events"), "hyperparameters")]
    found = ran[0].get("details") or {}
    return {
        "schema": 1,
        "job": folder.name,
        **found,
        "metrics": figures.values_of_metrics(trial),
        "hyperparameters": next((one for one in settings if isinstance(one, dict)), None),
        "insights": _insights(found),
    }


def page(folder: JobFolder, trial: Trial, found: Document) -> str:
    """Return the report as HTML that needs no other file."""
    body = html(
        tag("h1", f"XGBoost training report: {folder.name}"),
        tag("p", time.strftime("made %Y-%m-%d %H:%M:%S"), class_="dim"),
        *_sections(trial, found),
        tag("p", _NOTE, class_="note"),
    )
    head = html(tag("meta", charset="utf-8"), tag("title", f"{folder.name}: XGBoost"), style())
    return Markup("<!doctype html>") + tag("html", tag("head", head), tag("body", body), lang="en")


def notebook(folder: JobFolder, found: Document) -> Document:
    """Return a notebook that computes the figures again with the library."""
    return notebook_of(
        [
            ("markdown", f"# XGBoost training report: {escaped(folder.name)}\n\n{_NOTE}"),
            ("code", f"import holter\n\njob = holter.open({folder.url!r})\njob.diagnose()"),
            ("code", _AGAIN),
            ("markdown", "\n".join(f"* {escaped(text)}" for text in found["insights"].values())),
        ]
    )


def _sections(trial: Trial, found: Document) -> Iterator[Markup]:
    insights = found["insights"]

    def section(title: str, key: str, *parts: Markup) -> Markup:
        said = tag("p", insights[key], class_="said") if key in insights else html()
        return html(tag("h2", title), said, *parts)

    if "label_distribution" not in found:
        yield tag("p", _MISSING, class_="note")
    else:
        yield section(
            "Distribution of true labels", "labels", figure(figures.labels(found["label_distribution"]))
        )
    if metrics := list(figures.metrics(trial)):
        drawn = tag("div", *map(figure, metrics), class_="charts")
        yield section("Loss and metrics per round", "loss", drawn)
    if importance := found.get("feature_importance"):
        charts = [
            figure(figures.importance(kind, importance[kind])) for kind in _MEANINGS if kind in importance
        ]
        meanings = bullets(f"{kind}: {_MEANINGS[kind]}" for kind in _MEANINGS if kind in importance)
        drawn = tag("div", *charts, class_="charts")
        yield section("Feature importance", "importance", meanings, drawn)
    if confusion := found.get("confusion"):
        names = confusion["labels"]
        rows = [[f"class {a}", *row] for a, row in zip(names, confusion["rows_are_labels"], strict=True)]
        heads = ("true \\ predicted", *(f"class {one}" for one in names))
        yield section("Confusion matrix", "confusion", table(heads, rows, numbers=range(1, len(heads))))
    if scores := found.get("scores"):
        yield section("Evaluation of the confusion matrix", "scores", _scores(scores))
    if (rounds := found.get("rounds")) and rounds["steps"]:
        title = "Accuracy of each class per round"
        if "label_edges" in rounds:
            title = "Absolute error per interval of labels and round"
        yield section(title, "rounds", figure(figures.rounds(title, rounds)))
    if roc := found.get("roc"):
        yield section("ROC curve", "roc", figure(figures.roc(roc)))
    if residuals := found.get("residuals"):
        yield section(
            "Residuals", "residuals", figure(figures.histogram("Residuals", residuals, "prediction - label"))
        )
    if settings := found.get("hyperparameters"):
        rows = sorted(settings.items())
        yield section("Hyperparameters", "hyperparameters", table(("setting", "value"), rows))


def _scores(scores: Mapping[str, Any]) -> Markup:
    names = ("precision", "recall", "f1")
    rows = [
        [f"class {label}", *(_number(one[name]) for name in names), int(one["support"])]
        for label, one in scores["classes"].items()
    ]
    rows += [
        [f"{mean} mean", *(_number(one[name]) for name in names), ""] for mean, one in scores["means"].items()
    ]
    return table(("", *names, "examples"), rows, numbers=(1, 2, 3, 4))


def _number(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.3f}"


def _insights(found: Mapping[str, Any]) -> dict[str, str]:
    """Return a sentence for each section that has something to say."""
    said = {}
    labels = found.get("label_distribution") or {}
    if labels and "edges" not in labels:
        least, most = min(labels.values()), max(labels.values())
        said["labels"] = f"{len(labels)} classes; the rarest has {least} examples, the most frequent {most}."
        if most > _IMBALANCED * max(least, 1):
            said["labels"] += " The classes are imbalanced: resample, or set weights (scale_pos_weight)."
    if losses := found.get("last_losses"):
        said["loss"] = "Last values: " + ", ".join(
            f"{name} {one['value']:.4g}" for name, one in losses.items()
        )
        said["loss"] += "." + _overfit(losses)
    if by_gain := (found.get("feature_importance") or {}).get("gain"):
        top = ", ".join(f"{name} {percent(100 * share)}" for name, share in list(by_gain.items())[:3])
        said["importance"] = f"The first features by gain: {top}."
    if scores := found.get("scores"):
        said["scores"] = f"The accuracy is {percent(100 * (scores['accuracy'] or 0.0))}."
    if roc := found.get("roc"):
        said["roc"] = (
            f"The area under the curve is {roc['auc']:.4f}: 0.5 is guessing, and 1 separates the classes."
        )
    if (residuals := found.get("residuals")) and residuals["counts"]:
        said["residuals"] = (
            f"A residual is prediction minus label. Their mean is {residuals['mean']:.4g}, their standard "
            f"deviation {residuals['std']:.4g}."
        )
        if "confusion" in found:
            said["residuals"] += " Residuals of classes are 0 where the class is right."
        else:
            said["residuals"] += " Residuals that are not symmetric about 0 mean that the model is biased."
    return said


def _overfit(losses: Mapping[str, Any]) -> str:
    """Compare the losses of training and validation by metric."""
    for name, one in losses.items():
        data, _, metric = name.partition("-")
        other = next((losses[key] for key in losses if key.endswith(f"-{metric}") and key != name), None)
        if data != "train" or other is None or not one["value"]:
            continue
        gap = (other["value"] - one["value"]) / abs(one["value"])
        if gap > _OVERFIT:
            return (
                f" The {metric} is {percent(100 * gap)} higher on the other data than on the training data: "
                "the model overfits; use fewer rounds (early stopping), less depth, or more regularization."
            )
    return ""
