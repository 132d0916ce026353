"""Makes and parses the names of files in a store, and selects the files that compaction has not replaced."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote, unquote

if TYPE_CHECKING:
    from collections.abc import Iterable

JOB_NAME = re.compile(r"[A-Za-z0-9](-*[A-Za-z0-9._]){0,127}")
"""The pattern of a job's whole name."""

MANIFEST = "job.json"
CONTROL = "control.json"
EVALUATIONS = "evaluations.json"
TOLD = "otlp.json"
"""State of the metrics push: the time of the last one, and whether a fault was reported."""
SENT = "sent.json"
"""State of `holter run --to`: until when numbers were sent, and how to open the runs again."""
NODES = "nodes"

_PART = re.compile(r"(\d{1,19})-(\d{1,9})-(\d{1,9})\.parquet")
_NODE = "node="


class DataFileName(NamedTuple):
    """The parsed name of a data file, which holds the files numbered `first` to `last`."""

    table: str
    node: str
    t0: int
    first: int
    last: int
    key: str


def node_folder(table: str, node: str) -> str:
    """Return the folder of one table on one node, below the job's."""
    return f"{table}/{_NODE}{quote(node, safe='')}"


def part_key(table: str, node: str, t0: int, first: int, last: int) -> str:
    """Return the key of a data file. Padded, so that names sort by time; times before 1970 count as 0."""
    return f"{node_folder(table, node)}/{max(t0, 0):019d}-{first:08d}-{last:08d}.parquet"


def parse_part(key: str) -> DataFileName | None:
    """Parse a data file's key; None for other names."""
    pieces = key.split("/")
    if len(pieces) != 3 or not pieces[1].startswith(_NODE):
        return None
    match = _PART.fullmatch(pieces[2])
    if match is None:
        return None
    t0, first, last = (int(group) for group in match.groups())
    node = unquote(pieces[1][len(_NODE) :])
    if last < first or "\x00" in node:
        return None
    return DataFileName(pieces[0], node, t0, first, last, key)


def current(parts: Iterable[DataFileName]) -> list[tuple[DataFileName, int]]:
    """Select the files whose numbers no wider file covers, each with its first number that counts.

    This makes compaction invisible: once the wider file exists, the narrower files do not count, even before
    they are deleted. The first number is not the file's own when two compactions overlapped.
    """
    kept: list[tuple[DataFileName, int]] = []
    group, covered = ("", ""), -1
    # Of those that start at the same number the widest comes first.
    for part in sorted(parts, key=lambda p: (p.table, p.node, p.first, -p.last, p.t0)):
        if (part.table, part.node) != group:
            group, covered = (part.table, part.node), -1
        if part.last <= covered:
            continue
        kept.append((part, max(part.first, covered + 1)))
        if part.last > part.first:
            covered = part.last
    return kept


def node_key(node: str) -> str:
    """Return the key of a node's facts."""
    quoted = quote(node, safe="")
    if quoted.startswith("."):  # names that start with a dot are unfinished files
        quoted = "%2E" + quoted[1:]
    return f"{NODES}/{quoted}.json"


def parse_node(key: str) -> str | None:
    """Return the node of a key that holds a node's facts; None for other keys."""
    folder, _, name = key.rpartition("/")
    if folder != NODES or not name.endswith(".json") or name.startswith("."):
        return None
    return unquote(name[: -len(".json")])
