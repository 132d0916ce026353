"""Encodes a picture of at most 256 colors as a PNG."""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def encoded(rows: Sequence[bytes], palette: bytes, opacity: bytes = b"") -> bytes:
    """Return the PNG; without rows it is one pixel.

    Args:
        rows: The pixels, from top to bottom: each byte is a color of the palette; all rows are equally long.
        palette: Red, green and blue of each color.
        opacity: The opacity of the first colors; the others are opaque.
    """
    rows = rows if rows and rows[0] else [b"\0"]
    header = struct.pack(">IIBBBBB", len(rows[0]), len(rows), 8, 3, 0, 0, 0)
    lines = b"".join(b"\0" + row for row in rows)  # 0: no filter
    chunks = [_chunk(b"IHDR", header), _chunk(b"PLTE", palette)]
    if opacity:
        chunks.append(_chunk(b"tRNS", opacity))
    chunks += [_chunk(b"IDAT", zlib.compress(lines, 9)), _chunk(b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
