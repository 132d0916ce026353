"""Readings and events as the columns of smdebug's frames."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from holter.importers.kineto.threads import whole_or

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from holter.schema.table import Table


def system(rows: Table, origin: int) -> dict[str, NDArray[Any]]:
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


def framework(rows: Table, origin: int) -> dict[str, NDArray[Any]]:
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
        "bytes": np.array([whole_or(a.get("bytes_fetched")) for a in args], np.int64),
        "process": rows["phase"],
        "nodeID": rows["node"],
        "start_time_us_since_epoch": rows["start"],
        "end_time_us_since_epoch": rows["end"],
    }


def loader(rows: Table, origin: int) -> dict[str, NDArray[Any]]:
    """Return the columns of events of data loaders."""
    args = rows["args"].tolist()
    return {
        **_times(rows, origin),
        "duration_us": rows["end"] - rows["start"],
        "pid": rows["pid"],
        "framework_metric": rows["name"],
        "step": _steps(args),
        "worker_id": np.array([whole_or(a.get("worker_id")) for a in args], np.int64),
        "num_workers": np.array([whole_or(a.get("num_workers")) for a in args], np.int64),
        "pin_memory": np.array([_flag(a.get("pin_memory")) for a in args], object),
        "process": rows["phase"],
        "node_id": rows["node"],
        "start_time_us_since_epoch": rows["start"],
        "end_time_us_since_epoch": rows["end"],
    }


def _times(rows: Table, origin: int) -> dict[str, NDArray[Any]]:
    return {
        "start_time": _texts(rows["start"]),
        "end_time": _texts(rows["end"]),
        "start_time_us": rows["start"] - origin,
        "end_time_us": rows["end"] - origin,
    }


def _steps(args: list[dict[str, object]]) -> NDArray[np.int64]:
    return np.array([whole_or(a.get("step_num")) for a in args], np.int64)


def _texts(times: NDArray[np.int64]) -> NDArray[np.object_]:
    """Return times as smdebug writes them: to the microsecond, UTC. Rows of one moment share the text."""
    moments, which = np.unique(times, return_inverse=True)
    texts = np.datetime_as_string(moments.astype("datetime64[us]"))
    return np.array([text.replace(".", ":") for text in texts.tolist()], object)[which]


def _flag(value: Any) -> str:
    return "NA" if value is None else "True" if str(value).lower() in ("true", "1") else "False"
