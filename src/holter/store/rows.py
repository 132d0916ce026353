"""What the one file of a small job holds, whichever way it is written, and what both ways share."""

from __future__ import annotations

import functools
import sys
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

zstd: Any
if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from holter.schema.columns import Column

MOST_BYTES = 1 << 26
"""Bytes that such a file unpacks to, at most."""
SEPARATOR = "\0"
"""What stands between texts."""


class DamagedError(ValueError):
    """The file is none of these, or damaged."""


class Rows(NamedTuple):
    """Rows of one table of one node; text columns are codes into `values`."""

    table: str
    node: str
    columns: Mapping[str, NDArray[Any]]
    values: Mapping[str, Sequence[str]]


def check(columns: Sequence[Column]) -> int:
    """Return a number that is another for other columns."""
    return zlib.crc32(" ".join(f"{column.name} {column.type}" for column in columns).encode()) & 0xFFFF


def pressed(data: bytes, *, checked: bool) -> bytes:
    """Compress with the greatest effort, the words before it; `checked`: with a sum that tells damage."""
    named = zstd.CompressionParameter
    options = {named.compression_level: 22, named.checksum_flag: int(checked)}
    return bytes(zstd.compress(data, options=options, zstd_dict=words()))


def unpressed(data: bytes) -> tuple[bytes, bytes]:
    """Return what was compressed, and what follows it; raises `DamagedError`, `ZstdError`."""
    decompressor = zstd.ZstdDecompressor(zstd_dict=words())
    body = decompressor.decompress(data, MOST_BYTES)
    if not decompressor.eof:
        raise DamagedError("it ends too early, or unpacks to more than any small job")
    return bytes(body), bytes(decompressor.unused_data)


@functools.cache
def words() -> Any:
    """Return what compression begins with; another one would be another format."""
    return zstd.ZstdDict(Path(__file__).with_name("words.txt").read_bytes(), is_raw=True)
