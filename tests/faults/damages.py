"""Every single damage of a small file: cut at a byte, a bit of a byte flipped, a byte set to 0 or 255."""

from __future__ import annotations

from collections.abc import Iterator


def damages(content: bytes, every: int = 1, first: int = 0) -> Iterator[tuple[str, int, bytes]]:
    """Return what was done, at which byte, and the damaged content; `every` so many bytes from `first` on."""
    for at in range(first, len(content), every):
        byte = content[at]
        yield "cut", at, content[:at]
        for name, value in (("flipped", byte ^ (1 << at % 8)), ("zero", 0), ("full", 255)):
            if value != byte:
                yield name, at, content[:at] + bytes([value]) + content[at + 1 :]
