"""What is exported as Chrome's trace events is imported as the same events, made up and real."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from benchmarks.generated_trace import START_NS
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.report.protobuf import perfetto
from tests.report.reading_back import EVENT_TABLES, back, rows

from holter.importers import import_paths
from holter.report.exports import ExportSelection, chrome
from holter.report.exports import perfetto as perfetto_format
from holter.store.job import create
from holter.store.trial import Trial
from holter.store.writer import Writer

NAME = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1, max_size=20)
TIME = st.integers(0, 10**13)
LONG = st.integers(0, 10**10)
HERE = {"time": TIME, "duration": LONG, "rank": st.just(4)}
CALL = st.sampled_from(["cudaLaunchKernel", "hipLaunchKernel", "cudaMemcpyAsync", "cuLaunchKernelEx"])
WAIT = st.sampled_from([("cudaDeviceSynchronize", "device"), ("cudaStreamSynchronize", "stream")])
COPY = st.sampled_from([("h2d", "pinned"), ("d2h", "pageable"), ("d2d", ""), ("p2p", ""), ("memset", "")])
KIND = st.sampled_from(["operator", "python", "annotation"])
DETAIL = st.sampled_from(["", '{"Input Dims":[[4, 4], []]}', '{"Call stack":"a \\"b\\"; c"}'])
ROWS = {
    "kernels": st.fixed_dictionaries(
        {
            **HERE,
            "device": st.integers(0, 15),
            "stream": st.integers(0, 99),
            "name": NAME.map(lambda name: f"gemm {name}".replace("ll_", "")),
            "kind": st.just("compute"),
            "correlation": st.integers(0, 2**31),
            "detail": st.sampled_from(["", '{"grid":[1, 2, 3],"block":[64, 1, 1]}']),
        }
    ),
    "launches": st.fixed_dictionaries(
        {**HERE, "thread": st.integers(1, 2**40), "name": CALL, "correlation": st.integers(0, 2**31)}
    ),
    "syncs": st.builds(
        lambda row, wait: {**row, "name": wait[0], "kind": wait[1]},
        st.fixed_dictionaries({**HERE, "thread": st.integers(1, 2**40)}),
        WAIT,
    ),
    "memory_operations": st.builds(
        lambda row, copy: {**row, "kind": copy[0], "memory": copy[1]},
        st.fixed_dictionaries(
            {
                **HERE,
                "device": st.integers(0, 15),
                "stream": st.integers(0, 99),
                "bytes": st.integers(0, 2**40),
                "correlation": st.integers(0, 2**31),
            }
        ),
        COPY,
    ),
    "operators": st.fixed_dictionaries(
        {
            **HERE,
            "thread": st.integers(1, 2**40),
            "name": NAME.map("op {}".format),
            "kind": KIND,
            "detail": st.just(""),
        }
    )
    | st.fixed_dictionaries(
        {
            **HERE,
            "thread": st.integers(1, 99),
            "name": NAME.map("op {}".format),
            "kind": st.just("operator"),
            "detail": DETAIL,
        }
    ),
    "counters": st.fixed_dictionaries(
        {
            "time": TIME,
            "rank": st.just(4),
            "process": st.integers(1, 2**22),
            "name": NAME,
            "value": st.floats(allow_nan=False, allow_infinity=False),
        }
    ),
}


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(drawn=st.fixed_dictionaries({table: st.lists(row, max_size=12) for table, row in ROWS.items()}))
def test_any_events_come_back_from_chrome_json(drawn, tmp_path_factory):
    where = tmp_path_factory.mktemp("drawn")
    folder = create(str(where / "store"), "job", command=[], interval_ms=500, rules=[], now_ns=1)
    writer = Writer(folder, "n0")
    for table, listed in drawn.items():
        if listed:
            moved = [{**row, "time": row["time"] + START_NS} for row in listed]
            writer.append(table, {name: [row[name] for row in moved] for name in moved[0]})
    writer.close()
    if not any(drawn.values()):
        return
    trial = Trial(folder)
    assert chrome.write(trial, ExportSelection(), where / "out.json") == sum(map(len, drawn.values()))
    again = back(where / "out.json", where)
    for table in drawn:
        assert rows(again, table) == rows(trial, table), table


@pytest.mark.parametrize(
    "name",
    [
        "hta/amd_trace_mi250_minitoy_train_ROCm6_2_kineto.json.gz",
        "hta/critical_path_alexnet_benchmark_result_2869224_1695835535_trace.json.gz",
        "tracelens/mi300_resnet_act_checkpoint.json.gz",
    ],
)
def test_real_traces_come_back_as_they_were(name, tmp_path):
    path = Path(os.environ.get("HOLTER_DATA", "../shared/data")) / "traces" / name
    if not path.is_file():
        pytest.skip(f"{path} is not here; HOLTER_DATA names the folder of real traces")
    folder = create(str(tmp_path / "store"), "job", command=[], interval_ms=500, rules=[], now_ns=1)
    import_paths([path], folder)
    trial = Trial(folder)
    assert chrome.write(trial, ExportSelection(), tmp_path / "out.json")
    again = back(tmp_path / "out.json", tmp_path)
    for table in EVENT_TABLES:
        assert rows(again, table) == rows(trial, table), table
    assert perfetto_format.write(trial, ExportSelection(), tmp_path / "out")
    tracks, slices, _ = perfetto((tmp_path / "out").read_bytes())
    assert tracks
    assert len(slices) >= sum(trial.rows(table) for table in ("kernels", "operators", "launches"))
