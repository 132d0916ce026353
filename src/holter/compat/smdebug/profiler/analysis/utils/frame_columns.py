"""Readings and events as the columns of smdebug's frames."""

from __future__ import annotations

import time as clock
from typing import TYPE_CHECKING, Any

import numpy as np

from holter.compat.smdebug.profiler.readers import step_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from holter.schema.table import Table

FORMAT = "%Y-%m-%dT%H:%M:%S"


def system(rows: Table, origin: int) -> dict[str, Any]:
    """Return the columns of readings; `origin` is what relative times count from, microseconds."""
    return {
        "timestamp": _texts(rows["time"]),
        "timestamp_us": rows["time"] - origin,
        "value": rows["value"],
        "system_metric": rows["name"],
        "dimension": rows["dimension"],
        "nodeID": rows["node"],
        "type": rows["type"],
        "timestamp_us_since_epoch": rows["time"],
    }


def framework(rows: Table, origin: int) -> dict[str, Any]:
    """Return the columns of events."""
    args = rows["args"].tolist()
    own = [
        a.get("layer_name") or a.get("name") or n for a, n in zip(args, rows["name"].tolist(), strict=True)
    ]
    return {
        **_times(rows, origin),
        "tid": rows["tid"],
        "pid": rows["pid"],
        "framework_metric": np.array(own, object),
        "step": _steps(args),
        "bytes": np.array([_whole(a.get("bytes_fetched")) for a in args], np.int64),
        "process": rows["phase"],
        "nodeID": rows["node"],
        "start_time_us_since_epoch": rows["start"],
        "end_time_us_since_epoch": rows["end"],
    }


def loader(rows: Table, origin: int) -> dict[str, Any]:
    """Return the columns of events of data loaders."""
    args = rows["args"].tolist()
    return {
        **_times(rows, origin),
        "duration_us": rows["end"] - rows["start"],
        "pid": rows["pid"],
        "framework_metric": rows["name"],
        "step": _steps(args),
        "worker_id": np.array([_whole(a.get("worker_id")) for a in args], np.int64),
        "num_workers": np.array([_whole(a.get("num_workers")) for a in args], np.int64),
        "pin_memory": np.array([_flag(a.get("pin_memory")) for a in args], object),
        "process": rows["phase"],
        "node_id": rows["node"],
        "start_time_us_since_epoch": rows["start"],
        "end_time_us_since_epoch": rows["end"],
    }


def _times(rows: Table, origin: int) -> dict[str, Any]:
    return {
        "start_time": _texts(rows["start"]),
        "end_time": _texts(rows["end"]),
        "start_time_us": rows["start"] - origin,
        "end_time_us": rows["end"] - origin,
    }


def _steps(args: list[dict[str, Any]]) -> NDArray[np.int64]:
    return np.array([-1 if (step := step_of(a)) is None else step for a in args], np.int64)


def _texts(times: NDArray[Any]) -> NDArray[Any]:
    """Return times as smdebug writes them: to the microsecond, UTC. Rows of one moment share the text."""
    seconds: dict[int, str] = {}
    told = []
    moments, which = np.unique(times, return_inverse=True)
    for moment in moments.tolist():
        whole, rest = divmod(moment, 1_000_000)
        if whole not in seconds:
            seconds[whole] = clock.strftime(FORMAT, clock.gmtime(whole))
        told.append(f"{seconds[whole]}:{rest:06d}")
    return np.array(told, dtype=object)[which] if told else np.empty(0, object)


def _whole(value: Any) -> int:
    try:
        return -1 if value is None else int(value)
    except (TypeError, ValueError):
        return -1


def _flag(value: Any) -> str:
    return "NA" if value is None else "True" if str(value).lower() in ("true", "1") else "False"
