"""`--save COLLECTION[@N][:OPTION…]`: read which tensors are saved, also from SageMaker's JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holter.cli.options import Refusal, Refusing, nearest
from holter.recorder.tensors.collections import EACH, SOURCES, STATISTICS
from holter.recorder.tensors.requests import requests, to_environment

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from holter.store.documents import Document

_MODES = ("train", "eval", "predict", "global")
_SCHEDULE = {"save_interval": "interval", "start_step": "start", "end_step": "end", "save_steps": "steps"}
_FORM = ("save_raw_tensor", "save_shape", "save_histogram", "reductions", "include_regex")
_HOOK = (
    *_SCHEDULE,
    *_FORM,
    "save_all",
    "include_workers",
    "dry_run",
    "export_tensorboard",
    "tensorboard_dir",
)
_REDUCTIONS = (
    "min",
    "max",
    "mean",
    "std",
    "variance",
    "sum",
    "prod",
    "median",
    "l1",
    "l2",
    "l1_norm",
    "l2_norm",
)
_HOOK_ENTRIES = {"HookParameters", "CollectionConfigurations", "LocalPath", "S3OutputPath"}
_INTERVAL = 500
_NAMES = {"optimizer_variables": "optimizer_state"}
"""SageMaker's names of collections → holter's."""
_NUMBERS = ("metrics", "sm_metrics", "scalars")
"""Collections of numbers that are recorded at each step."""
_NOT_TENSORS = {*_NUMBERS, "hyperparameters", "tensorflow_summaries"}
_WITHOUT_EFFECT = {
    "LocalPath": "--store says where jobs are kept",
    "S3OutputPath": "--store says where jobs are kept",
    "include_workers": "all workers are saved",
    "export_tensorboard": "`holter export JOB --format tensorboard` writes event files",
    "tensorboard_dir": "`holter export JOB --format tensorboard` writes event files",
}
"""Settings of a hook without an effect here → what takes their place."""
_NOT_SAVED = {
    "hyperparameters": "the settings of a training of XGBoost are recorded without it",
    "tensorflow_summaries": "summary operations exist in graphs of TensorFlow 1 only",
}


def completed(given: Sequence[str | Document], rules: Iterable[Document]) -> list[str | Document]:
    """Return the requests, and those of rules that save what they need unless it is requested already."""
    from holter.rules import catalogue
    from holter.rules.patterns.tensors import TensorRule

    named = {one.split("@")[0] if isinstance(one, str) else str(one.get("name")) for one in given}
    added: dict[str, str] = {}
    for rule in rules:
        kind = catalogue().get(rule["rule"])
        if kind is not None and issubclass(kind, TensorRule) and kind.saves:
            for one in kind.save.split(" --save "):
                added.setdefault(one.split("@")[0], one)
    return [*given, *(one for name, one in added.items() if name not in named)]


def variable(given: Iterable[str | Document]) -> str:
    """Return the value of the environment variable for the recorder; raises `Refusal`."""
    with Refusing(ValueError, TypeError, before="--save: "):
        return to_environment(requests(given)) if given else ""


def read_hook(path: str, document: Any) -> list[Document]:
    """Read a hook configuration; `path` is its name in refusals.

    Returns:
        Collections as `holter.recorder.tensors.requests.requests` takes them.

    Raises:
        Refusal: The text names the file, the entry and what is valid.
    """
    if not isinstance(document, dict) or _HOOK_ENTRIES.isdisjoint(document):
        raise Refusal(
            f"config {path}: not a SageMaker configuration: one of a Debugger hook has HookParameters or"
            " CollectionConfigurations, one of the profiler has ProfilingParameters"
        )
    hook = _parameters(path, document.get("HookParameters"), "HookParameters")
    if _boolean(path, "dry_run", hook.get("dry_run", False)):
        return []
    named: dict[str, Document] = {"losses": {}}
    for entry in document.get("CollectionConfigurations") or []:
        if not isinstance(entry, dict) or not entry.get("CollectionName"):
            raise Refusal(f"config {path}: an entry of CollectionConfigurations has no CollectionName")
        name = str(entry["CollectionName"])
        before = named.get(name, {})
        more = _parameters(path, entry.get("CollectionParameters"), name)
        regexes = [one for one in (before.get("include_regex"), more.get("include_regex")) if one]
        named[name] = {
            **before,
            **more,
            **({"include_regex": ",".join(map(str, regexes))} if regexes else {}),
        }
    if _boolean(path, "save_all", hook.get("save_all", False)):
        named.setdefault("all", {})
    if hook.get("include_regex"):
        named["default"] = {"include_regex": hook["include_regex"], **named.get("default", {})}
    return [
        _collection(path, name, {**_inherited(hook, parameters), "include_regex": "", **parameters})
        for name, parameters in named.items()
        if name not in _NOT_TENSORS and not (name == "default" and not parameters.get("include_regex"))
    ]


def without_effect(document: Any) -> list[str]:
    """Return a line for each setting of a valid hook configuration that has no effect."""
    hook = document.get("HookParameters") or {}
    given = {**hook, **{key: value for key, value in document.items() if key in _HOOK_ENTRIES}}
    lines = [f"{key} has no effect: {why}" for key, why in _WITHOUT_EFFECT.items() if given.get(key)]
    for entry in document.get("CollectionConfigurations") or []:
        name, set_ = str(entry["CollectionName"]), entry.get("CollectionParameters") or {}
        if name in _NUMBERS and set_:
            lines.append(
                f"the parameters of collection {name} have no effect: numbers are recorded at each step"
            )
        elif name in ("hyperparameters", "tensorflow_summaries"):
            lines.append(f"collection {name} has no effect: {_NOT_SAVED[name]}")
    return lines


def _inherited(hook: Document, parameters: Document) -> Document:
    """Return the hook's parameters that a collection does not set itself, in all modes or in one."""
    return {key: value for key, value in hook.items() if key.rpartition(".")[2] not in parameters}


def _collection(path: str, name: str, given: Document) -> Document:
    name = _NAMES.get(name, name)
    regexes = _listed(given.get("include_regex"))
    if name not in SOURCES and not regexes:
        raise Refusal(
            f"config {path}: collection {name!r} has no include_regex{nearest(name, SOURCES)};"
            f" built in: {', '.join(SOURCES)}"
        )
    wanted = _listed(given.get("reductions"))
    reductions = [word.removeprefix("abs_") for word in wanted]
    for word in reductions:
        if word not in _REDUCTIONS:
            raise Refusal(
                f"config {path}: unknown reduction {word!r}{nearest(word, _REDUCTIONS)};"
                f" valid: {', '.join(_REDUCTIONS)}"
            )
    raw = _boolean(path, "save_raw_tensor", given.get("save_raw_tensor", False))
    shape = _boolean(path, "save_shape", given.get("save_shape", False))
    statistics = [*STATISTICS, *((EACH,) if "median" in reductions else ())]
    # Without any form SageMaker saves whole tensors, and so does holter.
    raw = raw or not (reductions or shape or name == "losses")
    return {
        "name": name,
        "include_regex": regexes,
        "schedule": {mode: _schedule(path, given, mode) for mode in _MODES},
        "statistics": statistics if reductions or raw or name == "losses" else [],
        "histogram": _boolean(path, "save_histogram", given.get("save_histogram", False)),
        "raw": raw,
        "prod": "prod" in reductions,
        "abs_min": "abs_min" in wanted,
        "shape": shape,
    }


def _schedule(path: str, given: Document, mode: str) -> Document:
    found: Document = {"interval": _INTERVAL}
    for theirs, ours in _SCHEDULE.items():
        value = given.get(f"{mode}.{theirs}", given.get(theirs))
        if value is None:
            continue
        words = _listed(value)
        if not all(word.isdecimal() for word in words) or (ours != "steps" and len(words) != 1):
            kind = "list of steps" if ours == "steps" else "number"
            raise Refusal(f"config {path}: {theirs} {value!r} is not a {kind}")
        found[ours] = [int(word) for word in words] if ours == "steps" else int(words[0])
    return found


def _parameters(path: str, given: Any, where: str) -> Document:
    if given is not None and not isinstance(given, dict):
        raise Refusal(f"config {path}: the parameters of {where} must be an object, not {given!r}")
    valid = {*_HOOK, *(f"{mode}.{key}" for mode in _MODES for key in _SCHEDULE)}
    for key in given or {}:
        if key not in valid:
            raise Refusal(
                f"config {path}: {where} has no parameter {key!r}{nearest(key, valid)};"
                f" valid: {', '.join(_HOOK)}"
            )
    return dict(given or {})


def _listed(value: Any) -> list[str]:
    words = value if isinstance(value, list) else str(value or "").split(",") if value != 0 else ["0"]
    return [str(word).strip() for word in words if str(word).strip()]


def _boolean(path: str, key: str, value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if str(value).strip().lower() not in ("true", "false"):
        raise Refusal(f"config {path}: {key} {value!r} is neither true nor false")
    return str(value).strip().lower() == "true"
