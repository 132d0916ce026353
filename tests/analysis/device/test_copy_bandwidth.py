"""The bandwidth of copies: by hand, and as Holistic Trace Analysis says it of real traces."""

from __future__ import annotations

import csv

import numpy as np
import pytest
from tests.analysis.kineto import given, load

from holter.analysis.device.copy_bandwidth import copy_bandwidth, copy_bandwidth_summary
from holter.schema.table import Table

TRACES = {
    "hta_nccl_data": "hta/nccl_parser_config_nccl_data.json.gz",
    "tracelens_b200_eager": "tracelens/b200_eager_trace.json.gz",
    "tracelens_owlv2_h100": "tracelens/h100_google_owlv2-large-patch14-ensemble__1016001.json.gz",
    "tracelens_qwen_h100": "tracelens/h100_Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz",
}
"""Traces that tell durations to the nanosecond; the last two have copies that lie between microseconds."""
ROUNDED = {
    "hta_df_index_resolver": "hta/df_index_resolver_df_index_resolver.json.gz",
    "hta_negative_queue_rank0of16": "hta/negative_queue_length_values_check_rank0.json.gz",
}
"""Traces in whole microseconds, in which HTA takes bandwidths that the profiler computed of nanoseconds."""


def copies(*rows: tuple[int, int, int, str]) -> dict[str, Table]:
    names = ("time", "duration", "bytes", "kind")
    return {
        "memory_operations": Table.of(
            "memory_operations", [dict(zip(names, row, strict=True)) for row in rows]
        )
    }


def test_copies_at_once_add_up_and_kinds_do_not() -> None:
    tables = copies((0, 1000, 2000, "h2d"), (500, 1000, 1000, "h2d"), (500, 100, 700, "d2h"))
    series = copy_bandwidth(tables)
    h2d = series.where(series["kind"] == "Memcpy HtoD")
    assert h2d["time"].tolist() == [0, 500, 1000, 1500]
    assert h2d["gb_per_s"].tolist() == [2.0, 3.0, 1.0, 0.0]
    summary = {row["kind"]: row for row in copy_bandwidth_summary(tables).to_rows()}
    assert summary["Memcpy HtoD"]["count"] == 3
    assert summary["Memcpy HtoD"]["mean"] == 2.0
    assert summary["Memcpy DtoH"]["most"] == 7.0
    assert np.isnan(summary["Memcpy DtoH"]["deviation"])


def test_nothing_moved_is_no_row() -> None:
    assert copy_bandwidth_summary(copies((0, 10, 0, "h2d"))).rows == 0
    assert copy_bandwidth({}).rows == 0


def test_hta_takes_away_the_bandwidth_of_a_copy_between_two_microseconds() -> None:
    """1.2 to 1.9 us is 2 to 1 us there: meanwhile its bandwidth is taken from another copy's."""
    tables = copies((0, 4000, 4000, "h2d"), (1200, 700, 7000, "h2d"))
    series = copy_bandwidth(tables, definition="hta")
    assert dict(zip(series["time"].tolist(), series["gb_per_s"].tolist(), strict=True)) == {
        0: 1.0,
        1000: 0.0,
        2000: 1.0,
        4000: 0.0,
    }
    assert copy_bandwidth(tables)["gb_per_s"].tolist() == [1.0, 11.0, 1.0, 0.0]


def test_an_unknown_definition_is_refused() -> None:
    with pytest.raises(ValueError, match="valid: all, hta, tracelens"):
        copy_bandwidth({}, definition="hat")


@pytest.mark.parametrize("name", TRACES)
def test_it_is_what_hta_says(name: str) -> None:
    loaded = load(given("traces", TRACES[name]))
    found = {row["kind"]: row for row in copy_bandwidth_summary(loaded, definition="hta").to_rows()}
    with given("expected", name, "hta", "memory_bw_summary.csv").open() as file:
        told = list(csv.reader(file))[3:]
    assert len(told) == len(found) > 0
    for row in told:
        mine = found[row[1]]
        assert mine["count"] == float(row[2]), row[1]
        keys = ("mean", "deviation", "least", "quarter", "median", "three_quarters", "most")
        for key, value in zip(keys, row[3:], strict=True):
            assert mine[key] == pytest.approx(float(value or "nan"), rel=1e-9, nan_ok=True), (row[1], key)


@pytest.mark.parametrize("name", ROUNDED)
def test_of_rounded_traces_it_differs_by_what_was_rounded_away(name: str) -> None:
    loaded = load(given("traces", ROUNDED[name]))
    found = {row["kind"]: row for row in copy_bandwidth_summary(loaded, definition="hta").to_rows()}
    with given("expected", name, "hta", "memory_bw_summary.csv").open() as file:
        told = {row[1]: row for row in [*csv.reader(file)][3:]}
    assert {kind: row["count"] for kind, row in found.items()} == {k: float(v[2]) for k, v in told.items()}
    for kind, row in found.items():
        assert 1.0 <= row["mean"] / float(told[kind][3]) < 1.6, kind
