"""Merges many small files into few large ones, during the job or after it, invisibly to readers."""

from __future__ import annotations

import os
import sys
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

from holter.schema.tables import TABLES
from holter.store.layout import parse_part, part_key
from holter.store.parquet import queries as parquet
from holter.store.parquet.columns import SERIES
from holter.store.parquet.queries import BATCH
from holter.store.reader import Reader

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holter.store.files import DataFile
    from holter.store.job import JobFolder

MIN_FILES = 8
MAX_ROWS = 2_000_000
"""Rows of a compacted file, at most."""
TIERS = (100_000, 800_000)
"""During a job, files are merged with files of similar size, so a row is rewritten twice at most."""


def compact(folder: JobFolder, *, min_files: int = MIN_FILES) -> int:
    """Merge runs of at least `min_files` small files; return the number of merged files.

    This is safe at any time, at any crash, and in several processes at once: a merged file appears in one
    piece under a name that covers its sources. From then on readers use it, and only then are these deleted.

    Raises:
        OSError: The store cannot be written; nothing is lost.
    """
    if min_files < 2:
        raise ValueError(f"min_files is {min_files}; at least 2 are needed to merge")
    tables = list(_worth_it(folder, min_files))
    if not tables:
        return 0
    reader = Reader(folder.place)
    ended = folder.manifest().get("end") is not None
    merged = 0
    for table in tables:
        with folder.place.lock(table):
            _sweep(folder, reader, table)
            for files in list(_runs(reader.files(table), min_files, ended)):
                merged += len(files) if _merge(folder, reader, files) else 0
    return merged


def _worth_it(folder: JobFolder, min_files: int) -> list[str]:
    """Return the tables of which a node has enough files, from names alone, so a check is cheap."""
    parts = [part for entry in folder.place.files() if (part := parse_part(entry.key)) is not None]
    many = {table for (table, _), n in Counter((p.table, p.node) for p in parts).items() if n >= min_files}
    return [table for table in TABLES if table in many]


def _runs(files: list[DataFile], min_files: int, ended: bool) -> Iterator[list[DataFile]]:
    """Yield runs of consecutive files to merge; a gap or different columns end a run."""
    by_node: dict[str, list[DataFile]] = defaultdict(list)
    for file in files:
        by_node[file.part.node].append(file)
    for members in by_node.values():
        if ended:
            if sum(file.rows < MAX_ROWS // 2 for file in members) >= min_files:
                yield from _neighbors(members, MAX_ROWS // 2, 2)
            continue
        for tier in TIERS:
            runs = list(_neighbors(members, tier, min_files))
            yield from runs
            if runs:
                break


def _neighbors(files: list[DataFile], below: int, min_files: int) -> Iterator[list[DataFile]]:
    """Yield runs of files that may become one: enough files, or so many rows that no further file fits."""
    run: list[DataFile] = []
    for file in files:
        fits = file.rows < below and file.from_ == file.part.first
        if run:
            follows = (
                fits
                and file.part.first == run[-1].part.last + 1
                and _own_columns(file) == _own_columns(run[-1])
            )
            full = sum(f.rows for f in run) + file.rows > MAX_ROWS
            if full or not follows:
                if len(run) >= (2 if follows else min_files):
                    yield run
                run = []
        if fits:
            run.append(file)
    if len(run) >= min_files:
        yield run


def _merge(folder: JobFolder, reader: Reader, files: list[DataFile]) -> bool:
    first, last = files[0].part, files[-1].part
    key = part_key(first.table, first.node, min(f.part.t0 for f in files), first.first, last.last)
    rows = sum(file.rows for file in files)
    says = dict(files[0].says)
    says["holter.rows"] = str(rows)
    says["holter.t_min"] = str(min(int(f.says["holter.t_min"]) for f in files))
    says["holter.t_max"] = str(max(int(f.says["holter.t_max"]) for f in files))
    names = ", ".join(parquet.name(name) for name, _ in files[0].columns if name != BATCH)
    sources = []
    for file in files:
        own = (
            f"coalesce({BATCH}, {file.part.first})" if BATCH in file.names else f"{file.part.first}::INTEGER"
        )
        batch = f"{own} AS {BATCH}"
        path = parquet.literal(parquet.pattern(file.path))
        sources.append(f"SELECT {names}, {batch} FROM read_parquet({path})")
    draft = folder.place.draft(key)
    connection = parquet.connect(threads=1, memory="1GB")
    try:
        query = f"SELECT * FROM ({' UNION ALL '.join(sources)}) ORDER BY {_order(first.table)}"
        parquet.copy(connection, query, draft, says, {})
        count = f"SELECT count(*) FROM read_parquet({parquet.literal(parquet.pattern(draft))})"
        if connection.execute(count).fetchone() != (rows,):
            # A damaged source would be deleted with rows that are not in the new file.
            return False
        folder.place.add(key, draft, durable=True)
    except FileExistsError:
        return False  # another compaction was faster
    except parquet.errors():
        # A file vanished, or is damaged inside: it stays as it is, and readers say so.
        return False
    finally:
        connection.close()
        draft.unlink(missing_ok=True)
    for file in files:
        folder.place.delete(file.part.key)
    return True


def _order(table: str) -> str:
    """Return the sort order of a table's rows as SQL."""
    if table not in SERIES:
        return f"time, {BATCH}"
    stretch, series = SERIES[table]
    # Elements of one tensor share their time.
    last = ["position"] if table == "tensor_values" else []
    return ", ".join([f"time // {stretch}", *series, "time", BATCH, *last])


def _sweep(folder: JobFolder, reader: Reader, table: str) -> None:
    """Delete the leftovers of a killed compaction: files that wider, readable ones replaced."""
    good = reader.files(table)
    for entry in folder.place.files(table):
        part = parse_part(entry.key)
        if part is None:
            continue
        for file in good:
            wide = file.part
            inside = wide.node == part.node and wide.first <= part.first and part.last <= wide.last
            if inside and wide.last - wide.first > part.last - part.first:
                folder.place.delete(part.key)
                break


def _own_columns(file: DataFile) -> tuple[Any, ...]:
    columns = tuple(column for column in file.columns if column[0] != BATCH)
    return (columns, file.says.get("holter.schema"))


if __name__ == "__main__":
    from holter.store.job import at

    os.nice(19)
    compact(at(sys.argv[1]), min_files=int(sys.argv[2]) if len(sys.argv) > 2 else MIN_FILES)
