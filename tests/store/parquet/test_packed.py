"""Parquet that is written without a database holds the same rows, for DuckDB and for Arrow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import pyarrow.parquet
import pytest

from holter.schema.tables import TABLES
from holter.store.parquet import packed

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

LARGEST = {"SMALLINT": 2**15 - 1, "INTEGER": 2**31 - 1, "BIGINT": 2**63 - 1}


def made_up(table: str, rows: int) -> tuple[dict[str, NDArray[Any]], dict[str, list[str]]]:
    """Return columns of all shapes: constant, few values, in order, and anything the type holds."""
    random = np.random.default_rng(rows)
    columns: dict[str, NDArray[Any]] = {}
    values: dict[str, list[str]] = {}
    for number, column in enumerate(TABLES[table].columns):
        if column.type == "VARCHAR":
            values[column.name] = ["", *(f"text {n} ä" for n in range([0, 3, 400][number % 3]))]
            columns[column.name] = random.integers(0, len(values[column.name]), rows)
        elif column.type == "DOUBLE":
            columns[column.name] = random.normal(size=rows)
            if column.nullable:
                columns[column.name][random.random(rows) < 0.5] = np.nan
        else:
            most = LARGEST[column.type]
            columns[column.name] = [
                random.integers(-most - 1, most, rows),
                np.full(rows, -1),
                random.integers(0, 5, rows),
                np.sort(random.integers(0, min(most, 10**6), rows)),
            ][(number + rows) % 4]
    return columns, values


@pytest.mark.parametrize("rows", [1, 2, 33, 1025, 4096, 4097, 130_000])
@pytest.mark.parametrize("table", ["kernels", "spans", "counters"])
def test_both_readers_read_what_was_given(tmp_path: Path, table: str, rows: int) -> None:
    columns, values = made_up(table, rows)
    path = tmp_path / "a.parquet"
    packed.write(path, TABLES[table], columns, values, "n0")
    by_arrow = pyarrow.parquet.read_table(path)
    by_duckdb = duckdb.connect().execute(f"SELECT * FROM '{path}'").fetchnumpy()
    for column in TABLES[table].columns:
        given = columns[column.name]
        wanted = [values[column.name][code] for code in given] if column.type == "VARCHAR" else given.tolist()
        if given.dtype.kind == "f":
            wanted = [None if column.nullable and value != value else value for value in wanted]
        assert by_arrow[column.name].to_pylist() == wanted, column.name
        assert by_duckdb[column.name].tolist() == wanted, column.name
    times = [
        pyarrow.parquet.ParquetFile(path).metadata.row_group(n).column(0).statistics
        for n in range(-(-rows // 122_880))
    ]
    assert min(one.min for one in times) == columns["time"].min()
    assert max(one.max for one in times) == columns["time"].max()


def test_small_files_take_little(tmp_path: Path) -> None:
    """Columns that all say the same, as most of a small table do, cost some hundred bytes each."""
    columns = {c.name: np.zeros(10, np.int64) for c in TABLES["launches"].columns}
    packed.write(
        tmp_path / "a.parquet",
        TABLES["launches"],
        columns,
        {"name": ["cudaLaunchKernel"]},
        "n0",
    )
    assert (tmp_path / "a.parquet").stat().st_size < 900
