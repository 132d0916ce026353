"""The data files that the one file of a small job stands for: written out on this machine to be read."""

from __future__ import annotations

import secrets
import shutil
import tempfile
import threading
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holter.schema.tables import TABLES
from holter.store.layout import SMALL, part_key
from holter.store.parquet import packed
from holter.store.parquet.columns import Batch
from holter.store.place import Entry

if TYPE_CHECKING:
    from holter.store.place import Place


class SmallFiles:
    """Data files of a small job, for one reader; they are gone with it."""

    def __init__(self, place: Place) -> None:
        self.folder = Path(tempfile.gettempdir(), f"holter-small-{secrets.token_hex(12)}")
        """Where they lie, once they were asked for."""
        self.fault: str | None = None
        """Why the job's one file cannot be read."""
        self._place = place
        self._paths: dict[Entry, Path] | None = None
        self._document: dict[str, Any] = {}
        self._lock = threading.Lock()
        weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)

    def entries(self, table: str) -> list[Entry]:
        """List those of a table; none where the job has no such file. Raises `OSError`."""
        return [entry for entry in self._written() if entry.key.startswith(f"{table}/")]

    @property
    def document(self) -> dict[str, Any]:
        """What the file says of the job; nothing where there is none."""
        self._written()
        return self._document

    def local(self, entry: Entry) -> Path | None:
        """Return where one lies; None for a file that is none of these."""
        return (self._paths or {}).get(entry)

    def _written(self) -> dict[Entry, Path]:
        with self._lock:
            if self._paths is None:
                # It is there from a job's begin or never: an import is told of when it has ended.
                self._paths = self._write_out()
            return self._paths

    def _write_out(self) -> dict[Entry, Path]:
        try:
            data = self._place.read(SMALL)
        except FileNotFoundError:
            return {}
        from holter.store import small  # no agent beside a training needs it
        from holter.store.rows import DamagedError

        try:
            tables, self._document = small.unpacked(data)
        except DamagedError as error:
            self.fault = str(error)
            return {}
        self.folder.mkdir(mode=0o700)
        paths: dict[Entry, Path] = {}
        for rows in tables:
            batch = Batch(rows.table)
            texts = {name: (rows.columns[name], values) for name, values in rows.values.items()}
            batch.append({**rows.columns, **texts}, rows.node)
            columns, values = batch.ordered()
            key = part_key(rows.table, rows.node, int(columns["time"].min()), 0, 0)
            path = self.folder / f"{len(paths)}.parquet"
            packed.write(path, TABLES[rows.table], columns, values, rows.node)
            paths[Entry(key, path.stat().st_size, SMALL)] = path
        return paths
