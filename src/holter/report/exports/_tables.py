"""The tables of a job as files of their own, written by DuckDB: sorted by time, in bounded memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holter.schema.tables import TABLES
from holter.store.parquet import queries as parquet

if TYPE_CHECKING:
    from pathlib import Path

    from holter.report.exports import ExportSelection
    from holter.store.trial import Trial

EXPORTED = tuple(name for name in TABLES if name != "tiles")
"""All tables except those that only serve drawing."""
NEEDS = "rows"
_MEMORY = "512MB"


def write(
    trial: Trial, chosen: ExportSelection, output: Path, ending: str, options: str, *, text: str = "{column}"
) -> int:
    """Write each table that has rows to `<table>.<ending>`; returns how many rows were written.

    `options` are those of DuckDB's COPY. `text` is the SQL expression for a text column `{column}`.

    Raises:
        OSError: The folder cannot be written, or a file of the job cannot be read.
    """
    written = 0
    connection = parquet.connect(memory=_MEMORY)
    connection.execute(f"SET temp_directory = {parquet.literal(str(output.parent / 'sorting'))}")
    try:
        for name in filter(trial.rows, EXPORTED):
            path = output / f"{name}.{ending}"
            try:
                rows = _copy(connection, trial, chosen, name, path, options, text)
            except parquet.errors():
                # A file is damaged inside or gone. Reading finds it, and `trial` leaves it out from then on.
                for _ in chosen.stretches(trial, {name: None}):
                    pass
                try:
                    rows = _copy(connection, trial, chosen, name, path, options, text)
                except parquet.errors() as error:
                    raise OSError(str(error).splitlines()[0]) from error
            written += rows
            if not rows:
                path.unlink()
    finally:
        connection.close()
    return written


def _copy(
    connection: object, trial: Trial, chosen: ExportSelection, name: str, path: Path, options: str, text: str
) -> int:
    source = trial.source(name, start_ns=chosen.start_ns, end_ns=chosen.end_ns)
    texts = [column.name for column in TABLES[name].columns if column.type == "VARCHAR"] + ["node"]
    columns = ", ".join(f"{text.format(column=parquet.name(one))} AS {parquet.name(one)}" for one in texts)
    where = chosen.where(name, timed=True) or "true"
    query = f"SELECT * REPLACE ({columns}) FROM ({source}) WHERE {where} ORDER BY time"  # noqa: S608
    done = connection.execute(f"COPY ({query}) TO {parquet.literal(str(path))} ({options})")  # type: ignore[attr-defined]
    return int(done.fetchone()[0])
