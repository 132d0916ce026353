"""Check that wheels hold what their names promise: python scripts/platforms.py WHEEL…

Of each shared object: its machine, the libraries that it needs, and versions of symbols of the C library.
abi3audit checks the symbols of Python. Ends with 1 and a line for each mistake.
"""

from __future__ import annotations

import io
import re
import sys
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

from elftools.elf.elffile import ELFFile

if TYPE_CHECKING:
    from collections.abc import Iterator

_MACHINES = {"x86_64": "EM_X86_64", "aarch64": "EM_AARCH64"}
_PLATFORM = re.compile(r"-cp311-abi3-(many|musl)linux_(\d+)_(\d+)_(\w+)\.whl$")
OBJECTS = 4
"""The hot path, mapped files, sums, and the scanner of traces."""


def mistakes(wheel: Path) -> Iterator[str]:
    """Yield what is wrong with a wheel."""
    named = _PLATFORM.search(wheel.name)
    if named is None:
        yield f"{wheel.name} names no platform of a release"
        return
    libc, machine = named[1], _MACHINES[named[4]]
    newest = (int(named[2]), int(named[3]))
    with zipfile.ZipFile(wheel) as packed:
        names = [name for name in packed.namelist() if name.endswith(".so")]
        if len(names) != OBJECTS:
            yield f"{wheel.name} holds {len(names)} shared objects instead of {OBJECTS}"
        for name in names:
            for wrong in _of_object(ELFFile(io.BytesIO(packed.read(name))), libc, machine, newest):
                yield f"{wheel.name}: {name} {wrong}"


def _of_object(elf: ELFFile, libc: str, machine: str, newest: tuple[int, int]) -> Iterator[str]:
    if elf["e_machine"] != machine:
        yield f"is for {elf['e_machine']}"
    libraries = {"many": {"libc.so.6"}, "musl": {"libc.so"}}[libc]
    dynamic = elf.get_section_by_name(".dynamic")
    for tag in dynamic.iter_tags("DT_NEEDED") if dynamic else ():
        if tag.needed not in libraries:
            yield f"needs {tag.needed}"
    versions = elf.get_section_by_name(".gnu.version_r")
    for _, symbols in versions.iter_versions() if versions else ():
        for symbol in symbols:
            number = re.fullmatch(r"GLIBC_(\d+)\.(\d+)(?:\.\d+)?", symbol.name)
            if libc == "musl" or number is None or (int(number[1]), int(number[2])) > newest:
                yield f"needs {symbol.name}"


if __name__ == "__main__":
    found = [text for wheel in sys.argv[1:] for text in mistakes(Path(wheel))]
    for text in found or (f"{Path(wheel).name}: in order" for wheel in sys.argv[1:]):
        print(text, file=sys.stderr)
    sys.exit(bool(found))
