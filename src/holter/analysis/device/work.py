"""Work of accelerators (kernels, copies and fills) under one of several definitions."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from holter.schema.table import NameCodes, Table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

DEFINITIONS = ("all", "hta", "tracelens")
"""Tools whose rules a definition follows.

- `all`: every kernel, copy and fill counts; what communicates says the table.
- `hta`: Holistic Trace Analysis. Whole microseconds where the trace has finer ones; with two `ProfilerStep`
  and more, only what was launched before the last one began; its name patterns tell kernels apart.
- `tracelens`: TraceLens with `--include_unlinked_kernels`. Communication is recognized by name, and a fill
  counts as compute. Without that flag it drops kernels that it finds no arrow to, and with older traces,
  whose arrows have another name, it finds next to none.
"""
COMPUTE, COMMUNICATION, MEMORY, OTHER = range(4)
KINDS = ("compute", "communication", "memory", "other")

COPIES = {
    "memset": "Memset",
    "h2d": "Memcpy HtoD",
    "d2h": "Memcpy DtoH",
    "d2d": "Memcpy DtoD",
    "p2p": "Memcpy PtoP",
    "h2h": "Memcpy HtoH",
}
"""Names of copies and fills in tables of kernels."""

_STEP = "ProfilerStep"
_HTA_COMMUNICATION = re.compile(r"nccl|hip|hccl|.*ncclKernel")
_HTA_NOT_COMPUTE = re.compile(
    r"nccl|.*Memcpy|.*Memset|.*dma|.*Sync|Stream Wait Event|cuda.*LaunchKernel|runFunction|hip|job_exe|packet"
    r"|pe_exe|cpum_exe_subgraph|hccl|collective_subgraph_execution"
)
_HTA_MEMORY = re.compile(r"(hip)?Mem(cpy|set)|dma")
_TRACELENS_COMMUNICATION = re.compile(r"rccl|nccl|cross_device_reduce", re.IGNORECASE)


def matching(names: Iterable[str], test: Callable[[str], object]) -> NDArray[np.bool_]:
    """Return for each name whether it passes a test; each distinct name is tested once."""
    known = NameCodes()
    codes: Ints = known.codes(names)
    passed = np.fromiter((bool(test(name)) for name in known), dtype=bool, count=len(known))
    return passed[codes]


class Work(NamedTuple):
    """Kernels, copies and fills, in no order; columns of one length.

    With definition `hta` also waits of streams, of kind other and without a correlation.
    """

    rank: Ints
    device: Ints
    stream: Ints
    begin: Ints
    """ns."""
    end: Ints
    kind: Ints
    """Index into `KINDS`."""
    correlation: Ints
    name: Ints
    """Index into `names`."""
    names: tuple[str, ...]

    @property
    def duration(self) -> Ints:
        """How long each ran, ns."""
        return self.end - self.begin

    def without_waits(self) -> Work:
        """Leave waits of streams out."""
        return self.where((self.kind != OTHER) | (self.correlation != 0))

    def where(self, mask: NDArray[Any] | slice) -> Work:
        """Keep the rows that a mask or indices select."""
        return Work._make([*(column[mask] for column in self[:8]), self.names])


def check_definition(definition: str, valid: Sequence[str] = DEFINITIONS) -> None:
    """Raise `ValueError`, naming the valid ones, for an unknown definition."""
    if definition not in valid:
        raise ValueError(f"definition {definition!r} is not known; valid: {', '.join(valid)}")


def device_work(tables: Mapping[str, Table], definition: str = "all") -> Work:
    """Return the work of accelerators.

    Args:
        tables: `kernels` and `memory_operations`; for `hta` also `launches` and `operators`.
        definition: One of `DEFINITIONS`.

    Raises:
        ValueError: No such definition.
    """
    check_definition(definition)
    kernels, copies = (tables.get(n) or Table.empty(n) for n in ("kernels", "memory_operations"))
    kernel_names, own_names = kernels.coded("name")
    names = NameCodes(zip(own_names, range(len(own_names)), strict=True))
    copied, copied_kinds = copies.coded("kind")
    copy_names = names.codes(COPIES.get(kind, f"Memcpy {kind}") for kind in copied_kinds)[copied]
    if definition == "all":
        kinds = np.where(kernels["kind"] == "communication", COMMUNICATION, COMPUTE)
    else:
        kind_of = _hta_kind if definition == "hta" else _tracelens_kind
        of_name = np.array([kind_of(name) for name in own_names], dtype=np.int64)
        kinds = of_name[kernel_names]
    fills = COMPUTE if definition == "tracelens" else MEMORY
    copy_kinds = np.where(copies["kind"] == "memset", fills, MEMORY)

    def joined(column: str) -> Ints:
        return np.concatenate([kernels[column], copies[column]]).astype(np.int64)

    begin = joined("time")
    work = Work(
        joined("rank"),
        joined("device"),
        joined("stream"),
        begin,
        begin + joined("duration"),
        np.concatenate([kinds, copy_kinds]).astype(np.int64),
        joined("correlation"),
        np.concatenate([kernel_names, copy_names]),
        tuple(names),
    )
    return _as_hta(work, tables) if definition == "hta" else work


def _hta_kind(name: str) -> int:
    if _HTA_COMMUNICATION.match(name):
        return COMMUNICATION
    if _HTA_MEMORY.match(name):
        return MEMORY
    return OTHER if _HTA_NOT_COMPUTE.match(name) else COMPUTE


def _tracelens_kind(name: str) -> int:
    return COMMUNICATION if _TRACELENS_COMMUNICATION.search(name) else COMPUTE


def _as_hta(work: Work, tables: Mapping[str, Table]) -> Work:
    """Take in and drop what HTA does, and round as it does: begins up, ends down, to whole microseconds."""
    launches, operators = (tables.get(name) or Table.empty(name) for name in ("launches", "operators"))
    # What names no stream, as some copies of MTIA, is work of no device to HTA.
    work = _with_waits(work.where(work.stream >= 0), operators.where(operators["kind"] == "device_wait"))
    begin, end = hta_rounded(work.begin, work.end)
    work = work._replace(begin=begin, end=end)
    marks = operators.where(matching(operators["name"], lambda name: name.startswith(_STEP)))
    if not marks.rows:
        return work
    called = launch_of(work, launches)
    keep = np.ones(len(work.begin), dtype=bool)
    times, _ = hta_rounded(launches["time"], launches["time"] + launches["duration"])
    starts, _ = hta_rounded(marks["time"], marks["time"] + marks["duration"])
    for rank in np.unique(marks["rank"]):
        of_rank = marks["rank"] == rank
        if len(set(marks["name"][of_rank])) >= 2:
            mine = work.rank == rank
            linked = mine & (called >= 0)
            before = np.zeros(len(keep), dtype=bool)
            before[linked] = times[called[linked]] < starts[of_rank].max()
            keep &= ~mine | before
    return work.where(keep)


def _with_waits(work: Work, waits: Table) -> Work:
    """Add the waits of streams, which HTA takes for work of no kind; their device does not matter to it."""
    waits = waits.where(waits["thread"] >= 0)
    if not waits.rows:
        return work
    names = NameCodes(zip(work.names, range(len(work.names)), strict=True))
    begin = waits["time"]
    none = np.zeros(waits.rows, dtype=np.int64)
    columns = (
        waits["rank"],
        none - 1,
        waits["thread"],
        begin,
        begin + waits["duration"],
        none + OTHER,
        none,
        names.codes(waits["name"]),
    )
    joined = (np.concatenate(pair).astype(np.int64) for pair in zip(work[:8], columns, strict=True))
    return Work._make([*joined, tuple(names)])


def hta_rounded(begin: Ints, end: Ints) -> tuple[Ints, Ints]:
    """Round begins up and ends down to whole microseconds, as HTA does; ns in and out.

    An event of less than a microsecond becomes one of none or, HTA's known fault, of less than none.
    """
    return -(-begin // 1000) * 1000, end // 1000 * 1000


def launch_of(work: Work, launches: Table) -> Ints:
    """Return the row of `launches` that asked for each piece of work, the first of several; -1 for none."""
    if not launches.rows or not len(work.begin):
        return np.full(len(work.begin), -1, dtype=np.int64)
    given = np.asarray(launches["correlation"], dtype=np.int64)
    _, ranks = np.unique(np.concatenate([launches["rank"], work.rank]), return_inverse=True)
    _, numbers = np.unique(np.concatenate([given, work.correlation]), return_inverse=True)
    keys = ranks * (numbers.max() + 1) + numbers
    here, there = keys[launches.rows :], keys[: launches.rows]
    order = np.argsort(there, kind="stable")
    at = np.minimum(np.searchsorted(there[order], here), launches.rows - 1)
    found = order[at]
    hit = (there[found] == here) & (work.correlation != 0)
    return np.where(hit, found, -1).astype(np.int64)
