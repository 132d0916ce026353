"""What was saved of tensors so far: which ones, at which steps, by which ranks. Grows with the job."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from typing import TYPE_CHECKING

from holter.store.follow import Follow
from holter.store.raw import RAW, DamagedRaw, RawTensor, parse_raw, read_header
from holter.store.reader import Reader

if TYPE_CHECKING:
    from holter.store.job import JobFolder
    from holter.store.place import Entry

_HEADERS = 64
"""Headers of raw files kept in memory: who reads a step asks for its tensors one after another."""

Writing = tuple[int, str, int]
"""Step, mode and rank: what one rank saves at once."""


class Saved:
    """An index of one job's tensors. `refresh` looks at what is new only."""

    def __init__(self, folder: JobFolder) -> None:
        self.folder = folder
        self.reader = Reader(folder.place, threads=1)
        self.ranks: dict[tuple[int, str], set[int]] = defaultdict(set)
        """For each step and mode, the ranks that saved something."""
        self.roles: dict[str, set[str]] = defaultdict(set)
        """For each tensor that has rows, its roles."""
        self.valued: set[str] = set()
        """Tensors that have values, histograms or units."""
        self.revision = 0
        """Grows whenever something new came."""
        self.faults: dict[str, str] = {}
        """Raw files that could not be read, and why."""
        self._follow = Follow(folder, reader=self.reader)
        self._raw: dict[Writing, Entry] = {}
        self._keys: set[str] = set()
        self._named: dict[Writing, frozenset[str]] = {}
        self._alike: dict[frozenset[str], frozenset[str]] = {}
        self._headers: OrderedDict[Writing, dict[str, RawTensor]] = OrderedDict()

    def refresh(self) -> bool:
        """Take in what came since the last call; says whether anything did."""
        before = len(self._keys)
        rows = self._follow.distinct("tensors", ("step", "mode", "rank"), ("name", "role"))
        values = self._follow.distinct("tensor_values", ("step", "mode", "rank"), ("name",))
        for step, mode, rank in rows[0] | values[0]:
            self.ranks[(step, mode)].add(rank)
        for name, role in rows[1]:
            self.roles[name].update([role] if role else [])
        for (name,) in values[1]:
            self.roles[name].update(())
            self.valued.add(name)
        for entry in self.folder.place.files(RAW):
            key = parse_raw(entry.key)
            if key is not None and entry.key not in self._keys:
                self._keys.add(entry.key)
                self._raw[(key.step, key.mode, key.rank)] = entry
                self.ranks[(key.step, key.mode)].add(key.rank)
        grown = any(map(bool, (*rows, *values))) or len(self._keys) > before
        self.revision += grown
        return grown

    @property
    def names(self) -> set[str]:
        """Names of all tensors that were saved."""
        return set(self.roles).union(*map(self._names, list(self._raw)))

    @property
    def skipped(self) -> list[dict[str, str]]:
        """Files that could not be read so far, each with `file` and `why`."""
        raw = [{"file": file, "why": why} for file, why in sorted(self.faults.items())]
        return self.reader.skipped + raw

    def raw(self, writing: Writing, name: str) -> RawTensor | None:
        """Return a raw tensor, if this rank saved it at this step.

        Raises:
            DamagedRaw: The file that should hold it cannot be read.
        """
        if writing not in self._raw:
            return None
        entry = self._raw[writing]
        if entry.key in self.faults:
            self._header(writing)  # says what is wrong with it
        return self._header(writing).get(name) if name in self._names(writing) else None

    def raw_writings(self, name: str) -> list[Writing]:
        """Return when and by whom a tensor was saved raw."""
        return [writing for writing in self._raw if name in self._names(writing)]

    def _names(self, writing: Writing) -> frozenset[str]:
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
