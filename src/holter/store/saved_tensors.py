"""Index of the saved tensors of a job: names, steps and ranks. It grows with the job."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from typing import TYPE_CHECKING

from holter.store.follow import Follow
from holter.store.raw_tensors import RAW, DamagedRaw, RawTensor, parse_raw, read_header
from holter.store.reader import Reader

if TYPE_CHECKING:
    from holter.store.job import JobFolder
    from holter.store.place import Entry

_HEADERS = 64
"""Headers of raw files kept in memory, because readers ask for the tensors of a step one by one."""

Writing = tuple[int, str, int]
"""Step, mode and rank: what one rank saves at once."""


class SavedTensors:
    """An index of one job's tensors. `refresh` looks at what is new only."""

    def __init__(self, folder: JobFolder) -> None:
        self.folder = folder
        # The reader of a running job shares the machine with it.
        running = folder.manifest().get("end") is None
        self.reader = Reader(folder.place, threads=1 if running else None)
        self.ranks: dict[tuple[int, str], set[int]] = defaultdict(set)
        """For each step and mode, the ranks that saved something."""
        self.roles: dict[str, set[str]] = defaultdict(set)
        """For each tensor that has rows, its roles."""
        self.valued: set[str] = set()
        """Tensors that have values, histograms or units."""
        self._newest: dict[str, int] = {}
        self.revision = 0
        """Grows whenever something new came."""
        self.faults: dict[str, str] = {}
        """Raw files that could not be read, and why."""
        self._named_rows = Follow(folder, reader=self.reader)
        self._moments = Follow(folder, reader=self.reader)
        self._raw_unseen: list[Writing] = []
        self._raw: dict[Writing, Entry] = {}
        self._keys: set[str] = set()
        self._named: dict[Writing, frozenset[str]] = {}
        self._alike: dict[frozenset[str], frozenset[str]] = {}
        self._headers: OrderedDict[Writing, dict[str, RawTensor]] = OrderedDict()

    def refresh(self) -> bool:
        """Take in what came since the last call; says whether anything did."""
        self.refresh_names()
        grown = bool(self._raw_unseen)
        for table in ("tensors", "tensor_values"):
            for step, mode, rank in self._moments.distinct(table, ("step", "mode", "rank")):
                self.ranks[(step, mode)].add(rank)
                self._newest[table] = max(self._newest.get(table, step), step)
                grown = True
        for step, mode, rank in self._raw_unseen:
            self.ranks[(step, mode)].add(rank)
        self._raw_unseen = []
        self.revision += grown
        return grown

    def refresh_names(self) -> None:
        """Take in the names only, which is much quicker after many steps."""
        rows = self._named_rows.distinct("tensors", ("name", "role"))
        values = self._named_rows.distinct("tensor_values", ("name",))
        for name, role in rows:
            self.roles[name].update([role] if role else [])
        for (name,) in values:
            self.roles[name].update(())
            self.valued.add(name)
        for entry in self.folder.place.files(RAW):
            key = parse_raw(entry.key)
            if key is not None and entry.key not in self._keys:
                self._keys.add(entry.key)
                self._raw[(key.step, key.mode, key.rank)] = entry
                self._raw_unseen.append((key.step, key.mode, key.rank))

    @property
    def names(self) -> set[str]:
        """Names of all tensors that were saved."""
        return set(self.roles).union(*map(self.raw_names, list(self._raw)))

    @property
    def skipped(self) -> list[dict[str, str]]:
        """Files that could not be read so far, each with `file` and `why`."""
        raw = [{"file": file, "why": why} for file, why in sorted(self.faults.items())]
        return self.reader.catalog.skipped + raw

    def awaited(self, name: str | None, step: int) -> bool:
        """Return whether rows of a tensor at a step may still come; each table is written by itself."""
        tables = {"tensor_values"} if name in self.valued else set()
        if name is None or name not in self.valued or self.roles.get(name):
            tables.add("tensors")
        return any(self._newest.get(table, step) < step for table in tables)

    def raw(self, writing: Writing, name: str) -> RawTensor | None:
        """Return a raw tensor, if this rank saved it at this step. Raises `DamagedRaw`."""
        if writing not in self._raw:
            return None
        entry = self._raw[writing]
        if entry.key in self.faults:
            self._header(writing)  # says what is wrong with it
        return self._header(writing).get(name) if name in self.raw_names(writing) else None

    def raw_writings(self, name: str) -> list[Writing]:
        """Return when and by whom a tensor was saved raw."""
        return [writing for writing in self._raw if name in self.raw_names(writing)]

    def raw_at(self, step: int | None, mode: str | None) -> list[Writing]:
        """Return the ranks that saved raw tensors at a step in a mode; None for any mode."""
        return [w for w in self._raw if step in (None, w[0]) and mode in (None, w[1])]

    def raw_names(self, writing: Writing) -> frozenset[str]:
        """Return the names of the raw tensors that a rank saved at a step; a damaged file has no names."""
        if writing not in self._named:
            try:
                names = frozenset(self._header(writing))
            except DamagedRaw as damage:
                self.faults[self._raw[writing].key] = str(damage)
                names = frozenset()
            # Most files hold the same tensors; ten thousand of them share one set of names.
            self._named[writing] = self._alike.setdefault(names, names)
        return self._named[writing]

    def _header(self, writing: Writing) -> dict[str, RawTensor]:
        if writing in self._headers:
            self._headers.move_to_end(writing)
            return self._headers[writing]
        entry = self._raw[writing]
        try:
            header, _ = read_header(self.folder.place.local(entry), entry.key)
        except OSError as error:
            raise DamagedRaw(entry.key, 0, f"cannot be read: {error}") from error
        self._headers[writing] = header
        if len(self._headers) > _HEADERS:
            self._headers.popitem(last=False)
        return header
