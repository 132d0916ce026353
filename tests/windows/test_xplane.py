"""What the profilers of JAX and TensorFlow saw in a window becomes rows: each where it belongs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holter.agent.drain.clock import Clock
from holter.agent.drain.windows import Fact, reader
from holter.schema.protobuf import bytes_field, number_field, text_field

BEGAN = 1_700_000_000 * 10**9
"""When the trace began, by the time of day; the recorder's clock stood at 0 then."""
NAMES = ("hlo_op", "hlo_module", "run_id", "correlation_id", "profile_start_time")


def event(number: int, begin: int, end: int, **facts: int | str) -> bytes:
    """Encode an event of the name with this number, ns since the begin of the trace."""
    told = b"".join(
        bytes_field(
            4,
            number_field(1, NAMES.index(name) + 1)
            + (text_field(5, value) if isinstance(value, str) else number_field(4, value)),
        )
        for name, value in facts.items()
    )
    return (
        number_field(1, number) + number_field(2, 1000 * begin) + number_field(3, 1000 * (end - begin)) + told
    )


def plane(name: str, names: tuple[str, ...], lines: dict[str, list[bytes]], stats: bytes = b"") -> bytes:
    listed = [(4, number, one) for number, one in enumerate(names, 1)]
    listed += [(5, number, one) for number, one in enumerate(NAMES, 1)]
    said = b"".join(
        bytes_field(
            field,
            number_field(1, number) + bytes_field(2, number_field(1, number) + text_field(2, one)),
        )
        for field, number, one in listed
    )
    rows = b"".join(
        bytes_field(
            3,
            number_field(1, number) + text_field(2, line) + b"".join(bytes_field(4, one) for one in events),
        )
        for number, (line, events) in enumerate(lines.items(), 7)
    )
    return bytes_field(1, text_field(2, name) + rows + said + stats)


ENVIRONMENT = plane("Task Environment", (), {}, bytes_field(6, number_field(1, 5) + number_field(3, BEGAN)))


def rows(path: Path, trace: bytes, bounds: list[int]) -> dict[str, list[dict[str, Any]]]:
    path.write_bytes(trace)
    fact = Fact("operators", 10, 10 + len(bounds) - 1, bounds, "1-1", BEGAN, stop_ns=1000)
    found = {}
    for table, columns in reader("xplane").rows(path, fact, Clock(0, 0)).items():
        found[table] = [
            dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)
        ]
    return found


def test_a_run_of_a_program_belongs_to_the_step_that_called_it(tmp_path: Path) -> None:
    run: dict[str, int | str] = {"hlo_op": "dot.1", "hlo_module": "jit_train"}
    names = ("PjitFunction(train)", "dot.1", "end: dot.1")

    calls = [event(1, at, at + 50) for at in (100, 200, 300)]
    calls += [event(1, at + 1, at + 49) for at in (100, 200, 300)]  # one within another of the same name
    # The device is late. The first run was called before the window, the last one ends after it.
    runs = [event(2, at, at + 150, run_id=number, **run) for number, at in enumerate((90, 250, 400, 550), 5)]
    host = plane("/host:CPU", names, {"python": calls, "pool": [*runs, event(3, 240, 240)]})
    found = rows(tmp_path / "it", host + ENVIRONMENT, [95, 195, 295, 395])
    operators = [
        (one["name"], one["step"], one["time"]) for one in found["operators"] if one["kind"] == "operator"
    ]
    assert operators == [("dot.1", 10, 250), ("dot.1", 11, 400), ("dot.1", 12, 550)]


def test_kernels_belong_to_the_step_that_launched_them(tmp_path: Path) -> None:
    host = plane("/host:CPU", ("cuLaunchKernel",), {"main": [event(1, 110, 112, correlation_id=3)]})
    names = ("gemm", "MemcpyH2D", "ncclDevKernel_AllReduce_Sum")
    streams = {
        "Stream #14(Compute)": [
            event(1, 210, 260, correlation_id=3),
            event(2, 220, 225, correlation_id=9),
            event(3, 230, 240),
        ],
        "XLA Modules": [event(1, 210, 260)],
    }
    found = rows(
        tmp_path / "it", host + plane("/device:GPU:1", names, streams) + ENVIRONMENT, [100, 200, 300]
    )
    assert [(one["name"], one["step"]) for one in found["launches"]] == [("cuLaunchKernel", 10)]
    kernels = [
        (one["name"], one["step"], one["device"], one["stream"], one["kind"]) for one in found["kernels"]
    ]
    assert kernels == [
        ("gemm", 10, 1, 14, "compute"),
        ("ncclDevKernel_AllReduce_Sum", 11, 1, 14, "communication"),
    ]
    assert [(one["kind"], one["step"]) for one in found["memory_operations"]] == [("h2d", 11)]


def test_operations_of_tensorflow(tmp_path: Path) -> None:
    names = (
        "TFE_Py_Execute",
        "EagerLocalExecute: Relu",
        "_MklMatMul",
        "ExecutorState::Process",
        "Iterator::Map",
    )
    events = [event(number, 100 + number, 150) for number in range(1, 6)]
    found = rows(tmp_path / "it", plane("/host:CPU", names, {"python": events}) + ENVIRONMENT, [100, 200])
    kinds = {one["name"]: one["kind"] for one in found["operators"]}
    assert {name for name, kind in kinds.items() if kind == "operator"} == {"Relu", "_MklMatMul"}


@pytest.mark.parametrize(
    ("trace", "why"),
    [(b"", "empty trace"), (ENVIRONMENT, "no events of these steps"), (b"\x0a\xff", "varint|ends|number")],
)
def test_an_empty_or_damaged_trace_says_so(tmp_path: Path, trace: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        rows(tmp_path / "it", trace, [0, 100])


def test_a_format_is_no_path() -> None:
    with pytest.raises(LookupError, match="makes no rows"):
        reader("..windows.xplane")
