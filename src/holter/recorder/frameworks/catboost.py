"""Records CatBoost: one boosting round is one step, and all of it is compute, because it runs in C++.

A callback would become a parameter of the model, whose bytes would differ. CatBoost writes the time and the
metrics of each round to files while it trains, unless the user turns this off. They are read afterwards.
Where the script has callbacks of its own, each call of them ends a round while it trains.
"""

from __future__ import annotations

import json
import os
import sys
from itertools import product
from pathlib import Path
from time import perf_counter_ns, time_ns
from typing import TYPE_CHECKING, Any

from holter.recorder.frameworks._calls import Calls
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
    rounds.time(core.CatBoost, "eval_metrics", "evaluate", Phase.EVAL)
    for name in ("CatBoostClassifier", "CatBoostRegressor"):
        rounds.time(getattr(core, name), "score", "score", Phase.EVAL)
    rounds.save(core.CatBoost, "save_model")
    grow = session.name("grow trees") << 8 | _COMPUTE
    calls = Calls(session, rounds.patches, rounds.breaker)
    seen: dict[tuple[str, str], int] = {}
    """Data and metric → values of this training that the callbacks have shown."""
    live = 0
    """Rounds of this training that ended with the call of a callback."""

    def calling(original: Any) -> Callable[..., Any]:
        def after_iteration(wrapper: Any, info: Any) -> Any:
            counts = False
            try:
                counts = rounds.breaker.on and rounds.counts
                if counts:
                    session.local.end_of(grow)
                    for one in wrapper._callbacks:
                        calls.watch(one, "callback", ("after_iteration",))
            except Exception as error:
                rounds.breaker.fault(error)
            try:
                return original(wrapper, info)
            except BaseException as error:
                hide(error)
                raise
            finally:
                if counts:
                    end_round(info)

        return after_iteration

    def end_round(info: Any) -> None:
        nonlocal live
        try:
            began = perf_counter_ns()
            _log(session, info, seen)
            session.local.thread_spool.spent(perf_counter_ns() - began)
            rounds.end_round()
            live += 1
            session.local.begin(grow)
        except Exception as error:
            rounds.breaker.fault(error)

    def training(original: Any) -> Callable[..., Any]:
        def _train(model: Any, train: Any, test: Any, params: Any, *args: Any, **kwargs: Any) -> Any:
            before = kwargs["init_model"] if "init_model" in kwargs else args[1] if len(args) > 1 else None
            about = params, before is not None
            try:
                return run(about, original, model, train, test, params, *args, **kwargs)
            except BaseException as error:
                hide(error)
                raise

        return _train

    def folds(original: Any) -> Callable[..., Any]:
        def _cv(*args: Any, **kwargs: Any) -> Any:
            try:
                return run((None, False), original, *args, **kwargs)
            except BaseException as error:
                hide(error)
                raise

        return _cv

    @passed_over
    def run(about: tuple[Any, bool], original: Any, *args: Any, **kwargs: Any) -> Any:
        """Train; `about` has the parameters, if known, and whether the model continues another one."""
        nonlocal live
        began, failed, live = 0, True, 0
        seen.clear()
        try:
            if rounds.breaker.on:
                rounds.begin(continues=about[1])
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
                end(*about, began, failed=failed)
        return result

    def end(params: Any, continues: bool, began: int, *, failed: bool) -> None:
        try:
            ended = session.local.end_of(grow)
            if rounds.counts and not live:
                wrote = params is not None and params.get("allow_writing_files", True)
                found = _rounds(Path(core._get_train_dir(params)), began, ended) if wrote else []
                if found and not continues:
                    session.since = found[0][0]
                _record(session, rounds, found, whole=not found and not failed)
                session.local.thread_spool.spent(perf_counter_ns() - ended)
            (rounds.finish if failed else rounds.pause)()
        except Exception as error:
            rounds.breaker.fault(error)

    if hasattr(core, "_TrainCallbacksWrapper"):  # CatBoost 0.26 and newer
        rounds.patches.wrap(core._TrainCallbacksWrapper, "after_iteration", calling)
    rounds.patches.wrap(core._CatBoostBase, "_train", training)
    rounds.patches.wrap(core, "_cv", folds)
    return rounds.patches.undo


def _record(
    session: Session, rounds: Rounds, found: list[tuple[int, int, dict[str, float]]], *, whole: bool
) -> None:
    """Write the steps of a training that has ended; one that shows no rounds, as a whole, is one step."""
    if whole:
        rounds.end_round()
    for _, ended, metrics in found:
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


def _log(session: Session, info: Any, seen: dict[tuple[str, str], int]) -> None:
    """Record the metrics that a round has added to those that callbacks get."""
    for data, metrics in (info.metrics or {}).items():
        for metric, values in metrics.items():
            if len(values) > seen.get((data, metric), 0):
                seen[data, metric] = len(values)
                session.scalar(f"{data}-{metric}", float(values[-1]))


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
