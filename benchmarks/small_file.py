"""Say where the bytes of a small import go, and what three changes of the format together would leave.

The three are heads of two bytes a table and three bits a column; a manifest without blanks and nulls; and an
arithmetic coder of numbers, which learns how many bits the values of a column have, or their differences, and
takes the bits below the first as they are: each column by it, by zstd among the others, whichever is less. It
is no bound: a coder that knows more of traces could do better. `without words` is what would be stored did
zstd not begin with the words that most traces share, `store/words.txt`: what these are worth to a trace.

    python benchmarks/small_file.py TRACE…
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections import Counter
from math import log2
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from holter.importers import import_job
from holter.schema.tables import TABLES
from holter.store import small
from holter.store.layout import SMALL

if TYPE_CHECKING:
    from holter.store.small import Rows

_CLASSES = 20
"""So many lengths of numbers the coder thinks of before it has seen any."""


def main() -> None:
    """Measure traces, and print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("traces", nargs="+", type=Path)
    titles = (
        "trace", "json.gz", "stored", "manifest", "of files", "heads", "numbers", "texts", "stored/json.gz",
        "without words", "with all three",
    )  # fmt: skip
    print(f"| {' | '.join(titles)} |\n{'|---' * len(titles)}|")
    for trace in parser.parse_args().traces:
        told(trace)


def told(trace: Path) -> None:
    """Import one trace and print its line."""
    with tempfile.TemporaryDirectory() as store:
        folder, _ = import_job([trace], store, "job", now_ns=0)
        place = Path(folder.url)
        manifest, file = (place / "job.json").read_bytes(), place / SMALL
        if not file.exists():
            print(f"| {trace.name[:60]} | is no small import |")
            return
        data = file.read_bytes()
    tables, document = small.unpacked(data)
    texts = sorted({text for one in tables for name in one.values for text in one.values[name]})
    size = trace.stat().st_size
    files = _pressed(json.dumps(document, separators=(",", ":")).encode())
    words = _pressed("\0".join(texts).encode())
    numbers = _pressed(b"".join(stream for one in tables for _, stream in map(small._packed, _columns(one))))
    heads = len(data) - files - words - numbers
    kept = {key: value for key, value in json.loads(manifest).items() if value is not None}
    fewer = len(json.dumps(kept, separators=(",", ":"))) + files + words
    fewer += sum(2 + 3 * len(TABLES[one.table].columns) / 8 for one in tables)
    fewer += sum(_least(column) for one in tables for column in _columns(one))
    parts = (len(manifest), files, heads, numbers, words)
    stored = len(manifest) + len(data)
    body = small.zstd.decompress(data[len(small._MAGIC) :], zstd_dict=small._words())
    plain = len(manifest) + len(small._MAGIC) + len(small.zstd.compress(body, options=small._OPTIONS))
    ratios = [f"{part / size:.3f}" for part in (stored, plain, fewer)]
    cells = [trace.name[:60], size, stored, *parts, *ratios]
    print(f"| {' | '.join(map(str, cells))} |")


def _columns(rows: Rows) -> list[Any]:
    return list(rows.columns.values())


def _pressed(data: bytes) -> int:
    """Return the bytes of data between others: without a frame of its own."""
    options = {**small._OPTIONS, small.zstd.CompressionParameter.checksum_flag: 0}
    return len(small.zstd.compress(data, options=options, zstd_dict=small._words())) - 9


def _least(column: Any) -> float:
    """Return the least bytes of a column; none for one that always says the same."""
    stored = _pressed(small._packed(column)[1])
    if column.dtype.kind == "f":
        return stored
    numbers = column.astype(np.int64)
    if (numbers == numbers[0]).all():
        return 0.0
    tried = map(_coded, (small._unsigned(numbers), small._unsigned(np.diff(numbers))))
    return min(stored, *tried)


def _coded(numbers: Any) -> float:
    seen: Counter[int] = Counter()
    bits = 0.0
    for count, number in enumerate(numbers.tolist()):
        length = number.bit_length()
        bits += max(0, length - 1) - log2((seen[length] + 0.5) / (count + _CLASSES / 2))
        seen[length] += 1
    return bits / 8


if __name__ == "__main__":
    main()
