"""Records CatBoost: one boosting round is one step, and all of it is compute, because it runs in C++.

A callback would become a parameter of the model, whose bytes would differ. CatBoost writes the time and the
metrics of each round to files while it trains, unless the user turns this off. They are read afterwards.
"""

from __future__ import annotations

import json
import os
import sys
from itertools import product
from pathlib import Path
from time import perf_counter_ns, time_ns
from typing import TYPE_CHECKING, Any

from holter.recorder.frameworks.trees.rounds import Rounds
from holter.recorder.patches import hide, passed_over
from holter.schema.phases import Phase

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from holter.recorder.session import Session

_PARTS = ("data_loading", "compute")
_COMPUTE, _SCALAR = int(Phase.COMPUTE), int(Phase.SCALAR)
_METRICS, _TIMES = "catboost_training.json", "time_left.tsv"
"""Files in the training's folder: the rounds with metrics, and the time of all rounds in ms."""


def attach(session: Session) -> Callable[[], None]:
    """Record CatBoost for `session`; return a function that removes every hook."""
    core = sys.modules["catboost.core"]
    rounds = Rounds(session, "catboost", sys.modules["catboost"], _PARTS)
    rounds.time(core.Pool, "__init__", "build Pool", Phase.DATA_LOADING)
    grow = session.name("grow trees") << 8 | _COMPUTE

    def training(original: Any) -> Callable[..., Any]:
        def _train(model: Any, train: Any, test: Any, params: Any, *args: Any, **kwargs: Any) -> Any:
            try:
                return run(params, original, model, train, test, params, *args, **kwargs)
            except BaseException as error:
                hide(error)
                raise

        return _train

    def folds(original: Any) -> Callable[..., Any]:
        def _cv(*args: Any, **kwargs: Any) -> Any:
            try:
                return run(None, original, *args, **kwargs)
            except BaseException as error:
                hide(error)
                raise

        return _cv

    @passed_over
    def run(params: Any, original: Any, *args: Any, **kwargs: Any) -> Any:
        """Train; without parameters the folder of the training is unknown."""
        began, failed = 0, True
        try:
            if rounds.breaker.on:
                rounds.begin()
                began = session.local.begin(grow)
        except Exception as error:
            rounds.breaker.fault(error)
        try:
            result = original(*args, **kwargs)
            failed = False
        except BaseException as error:
            hide(error)
            raise
        finally:
            if began:
                end(params, began, failed=failed)
        return result

    def end(params: Any, began: int, *, failed: bool) -> None:
        try:
            ended = session.local.end_of(grow)
            if rounds.counts:
                wrote = params is not None and params.get("allow_writing_files", True)
                found = _rounds(Path(core._get_train_dir(params)), began, ended) if wrote else []
                _record(session, rounds, found, whole=not found and not failed)
                session.local.thread_spool.spent(perf_counter_ns() - ended)
            rounds.finish()
        except Exception as error:
            rounds.breaker.fault(error)

    rounds.patches.wrap(core._CatBoostBase, "_train", training)
    rounds.patches.wrap(core, "_cv", folds)
    return rounds.patches.undo


def _record(
    session: Session, rounds: Rounds, found: list[tuple[int, int, dict[str, float]]], *, whole: bool
) -> None:
    """Write the steps of a training that has ended; one that shows no rounds, as a whole, is one step."""
    if whole:
        rounds.end_round()
    for at, (began, ended, metrics) in enumerate(found):
        if not at:
            session.since = began
        for name, value in metrics.items():
            session.local.thread_spool.add(_SCALAR, session.name(name), ended, 0, value)
        rounds.end_round(ended)


def _rounds(folder: Path, began: int, ended: int) -> list[tuple[int, int, dict[str, float]]]:
    """Return begin, end and metrics of each round between two moments, monotonic ns.

    The files have the time that has passed since the first round began. The last of these times is when the
    file was changed last.
    """
    try:
        told = json.loads((folder / _METRICS).read_text())
        lines = (folder / _TIMES).read_text().splitlines()[1:]
        changed = perf_counter_ns() - (time_ns() - os.stat(folder / _TIMES).st_mtime_ns)
    except (OSError, ValueError):
        return []
    passed = {int(line.split("\t")[0]): int(line.split("\t")[1]) * 1_000_000 for line in lines}
    passed |= {one["iteration"]: round(one["passed_time"] * 1e9) for one in told["iterations"]}
    metrics = {one["iteration"]: dict(_metrics(told["meta"], one)) for one in told["iterations"]}
    zero = changed - max(passed.values(), default=0)
    found, before = [], max(zero, began)
    for number, length in sorted(passed.items()):
        end = min(zero + length, ended)
        if end > began:  # a file of a training before, or a snapshot, has others
            found.append((before, max(end, before), metrics.get(number, {})))
            before = max(end, before)
    return found


def _metrics(meta: Mapping[str, Any], one: Mapping[str, Any]) -> list[tuple[str, float]]:
    """Return names and values of a round's metrics; the sets have the names of CatBoost's own results."""
    several = len(meta["test_sets"]) > 1
    tests = [f"validation_{at}" if several else "validation" for at in range(len(meta["test_sets"]))]
    return [
        (f"{data}-{metric['name']}", float(value))
        for key, sets in (("learn", meta["learn_sets"]), ("test", tests))
        for (data, metric), value in zip(
            product(sets, meta[f"{key}_metrics"]), one.get(key, ()), strict=False
        )
    ]
