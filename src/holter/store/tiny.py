"""All rows of a very small job in one file: numbers as symbols (`walk`), texts once, without what they share.

Of a trace of some hundred events even headers are much. Here nothing is told of columns but how their numbers
are written. Texts that are alike but for their numbers and quoted texts, as JSON objects of one kind are,
share a template; what differs becomes columns like those of tables.
"""

from __future__ import annotations

import json
import re
import zlib
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from holter.schema.tables import TABLES
from holter.store.coder import Coder
from holter.store.rows import SEPARATOR, DamagedError, Rows, check, pressed, unpressed
from holter.store.walk import Walk, numbered

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from holter.schema.columns import Column

MAGIC = b"HSJ2"
MOST_ROWS = 2048
"""Up to so many rows of all tables a job is written like this: Python takes 0.1 ms for each."""
_ALIKE = 8
"""So many texts share a template, or none has it."""
_PART = re.compile(r'"((?:[^"\\]|\\.)*)"(\s*:)?|(0|[1-9]\d{0,17})')
_TEXT, _NUMBER = "\1", "\2"
_HOLE = re.compile(f"[{_TEXT}{_NUMBER}]")
_CHECK = 0xFF
_TABLE, _NODE = -1, -2
"""Places of values that stand in no column."""


class _Known(NamedTuple):
    """A table whose texts are numbers still."""

    table: int
    node: int
    width: int
    check: int
    columns: list[Sequence[int]]


def packed(tables: Sequence[Rows], document: Mapping[str, Any]) -> bytes:
    """Return tables, and what is said of them, as one file.

    Raises:
        ValueError: A text holds a NUL, which separates texts here, or there is too much.
    """
    numbers: dict[str, int] = {}
    coder = Coder()
    walk = Walk(coder)
    coder.number([(), "tables"], len(tables))
    for rows in tables:
        listed = TABLES[rows.table].columns
        for place, text in ((_TABLE, rows.table), (_NODE, rows.node)):
            walk.value(True, place, [numbers.setdefault(text, len(numbers))])
        count = len(rows.columns["time"])
        for number in (count, len(listed), check(listed) & _CHECK):
            coder.number([(), "head"], number)
        given = [_numbers(rows, column, numbers) for column in listed]
        asked = [column.type == "VARCHAR" for column in listed]
        walk.table(count, len(listed), given, asked, lasting=listed[1].name == "duration")
    texts = list(numbers)
    templates, kinds, parts = _templates(texts)
    walk.table(len(texts), 1, [kinds], [False], timed=False)
    plain = [text for text, kind in zip(texts, kinds, strict=True) if not kind]
    numbers = {text: numbers[text] for text in plain}
    for kind in range(1, len(templates) + 1):
        found = [own for own, one in zip(parts, kinds, strict=True) if one == kind]
        asked = [isinstance(part, str) for part in found[0]]
        columns: list[list[int]] = []
        for column in zip(*found, strict=True):
            columns.append([])
            for part in column:
                if isinstance(part, str) and part not in numbers:
                    numbers[part] = len(plain) + len(texts) - kinds.count(0)
                    plain.append(part)
                columns[-1].append(numbers[part] if isinstance(part, str) else part)
        walk.table(len(found), len(asked), columns, asked, timed=False)
    told = [json.dumps(dict(document), separators=(",", ":")), *templates, *plain]
    if any(SEPARATOR in text for text in told):
        raise ValueError("a text holds a NUL")
    body = pressed(SEPARATOR.join(told).encode(), checked=False) + coder.written()
    return MAGIC + zlib.crc32(body).to_bytes(4, "little") + body


def unpacked(data: bytes) -> tuple[list[Rows], dict[str, Any]]:
    """Return tables, and what is said of them; raises what damage leads to."""
    body = data[len(MAGIC) + 4 :]
    if zlib.crc32(body).to_bytes(4, "little") != data[len(MAGIC) : len(MAGIC) + 4]:
        raise DamagedError("it is not what was written")
    told, coded = unpressed(body)
    document, *told_texts = told.decode().split(SEPARATOR)
    coder = Coder(coded)
    walk = Walk(coder)
    found = []
    for _ in range(coder.number([(), "tables"])):
        table, node = walk.value(True, _TABLE), walk.value(True, _NODE)
        count, width, checked = (coder.number([(), "head"]) for _ in range(3))
        columns, _ = walk.table(count, width)
        found.append(_Known(table, node, width, checked, columns))
    texts = _texts(walk, told_texts)
    rows = [_rows(one, texts) for one in found if texts[one.table] in TABLES]
    return rows, dict(json.loads(document))


def _numbers(rows: Rows, column: Column, numbers: dict[str, int]) -> list[int]:
    """Return a column as whole numbers: of texts those that they have, of fractions their bits."""
    array = rows.columns[column.name]
    if column.type == "VARCHAR":
        values = rows.values[column.name]
        return [numbers.setdefault(values[code], len(numbers)) for code in array.tolist()]
    if array.dtype.kind == "f":
        array = array.astype("<f8").view("<i8")
    found: list[int] = array.astype(np.int64).tolist()
    return found


def _rows(one: _Known, texts: Sequence[str]) -> Rows:
    """Return a table as it was given; raises `DamagedError` where it has other columns than are known."""
    table = texts[one.table]
    listed = TABLES[table].columns[: one.width]
    if len(listed) < one.width or check(listed) & _CHECK != one.check:
        raise DamagedError(f"its table {table!r} has other columns than this holter knows")
    columns, values = {}, {}
    for column, given in zip(listed, one.columns, strict=True):
        if column.type == "VARCHAR":
            values[column.name] = [texts[number] for number in dict.fromkeys(given)]
            given = numbered(given)
        array = np.array(given, np.int64)
        columns[column.name] = array.view("<f8") if column.type in ("DOUBLE", "FLOAT") else array
    return Rows(table, texts[one.node], columns, values)


def _templates(texts: Sequence[str]) -> tuple[list[str], list[int], list[list[str | int]]]:
    """Return templates; of each text which it has, n for the n-th and 0 for none; and its parts."""
    both = [_divided(text) for text in texts]
    counts = Counter(template for template, parts in both if parts)
    templates = [template for template, count in counts.items() if count >= _ALIKE]
    kinds = {template: kind for kind, template in enumerate(templates, 1)}
    return templates, [kinds.get(template, 0) for template, _ in both], [parts for _, parts in both]


def _divided(text: str) -> tuple[str, list[str | int]]:
    """Return a text with holes for its numbers and quoted texts, and what was there."""
    parts: list[str | int] = []

    def hole(match: re.Match[str]) -> str:
        quoted, key, number = match.groups()
        if key:
            return match[0]
        parts.append(quoted if number is None else int(number))
        return f'"{_TEXT}"' if number is None else _NUMBER

    return (text, []) if _HOLE.search(text) else (_PART.sub(hole, text), parts)


def _texts(walk: Walk, told: Sequence[str]) -> list[str]:
    """Return all texts by their numbers."""
    count = walk.texts
    ((kinds,), _) = walk.table(count, 1, timed=False)
    templates, rest = told[: max(kinds)], iter(told[max(kinds) :])
    filled = []
    for kind, template in enumerate(templates, 1):
        pieces = _HOLE.split(template)
        filled.append((pieces, *walk.table(kinds.count(kind), len(pieces) - 1, timed=False)))
    texts = ["" if kind else next(rest) for kind in kinds] + list(rest)
    if len(texts) != walk.texts:
        raise DamagedError("texts are missing")
    rows = [zip(*columns, strict=True) for _, columns, _ in filled]
    for at, kind in enumerate(kinds):
        if kind:
            pieces, _, asked = filled[kind - 1]
            parts = zip(asked, next(rows[kind - 1]), strict=True)
            told_parts = [texts[part] if text else str(part) for text, part in parts]
            texts[at] = "".join(part for both in zip(pieces, [*told_parts, ""], strict=True) for part in both)
    return texts
