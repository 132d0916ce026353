"""Reads changed files in a process of its own, and notes what no reader may do.

    python -m tests.fuzz.watching READER SEED COUNT FOLDER

An audit hook of Python notes code that is run from the files, programs that are started, sockets that are
opened, and files that are written outside of FOLDER. Prints a JSON line for each finding, and one at the end.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import Any

HANG_S = 10
_OURS = os.path.realpath(Path(__file__).parents[2] / "src")
MOST_MEMORY = 1 << 30
_PROGRAMS = ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork")
_CODE = ("pickle.find_class", "ctypes.dlopen", "marshal.loads")
_CHANGES = ("os.remove", "os.rename", "os.mkdir", "os.rmdir", "shutil.rmtree", "os.symlink", "os.truncate")
ODD = (
    b"9" * 40, b"-9223372036854775809", b"1e400", b"-1", b"null", b"true", b'"x"', b"[]", b"{}", b"[" * 200,
    b'"\xff\xfe"', b"\x00", b"NaN", b"0.0000000001", b"../../../../etc/passwd", b"__import__('os')", b"",
    b"\xff" * 9, b"\x80" * 10 + b"\x01", b"=cmd|'/C calc'!A0", b"%s%n", b"\xf0\x9f\x98\x80",
)  # fmt: skip
"""What stands where something else was."""


class Hang(BaseException):
    """A file takes too long."""


class Watch:
    """Notes what happens while a file is read."""

    def __init__(self, folder: Path) -> None:
        self.folder = os.path.realpath(folder)
        self.on = False
        self.seen: list[str] = []
        sys.addaudithook(self._hook)

    def _hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.on:
            return
        if event == "ctypes.dlopen" and os.path.realpath(str(arguments[0])).startswith(_OURS):
            return  # the compiled scanner, loaded when it is needed first
        if event in _PROGRAMS or event in _CODE or event == "socket.connect":
            self._note(f"{event} {arguments!r:.200}")
        elif event == "open":
            path, mode, flags = (*arguments, None, None, None)[:3]
            writes = isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
            if writes and isinstance(path, str | bytes) and not self._inside(os.fsdecode(path)):
                self._note(f"open for writing {path!r} {mode}")
        elif event in _CHANGES:
            if isinstance(arguments[0], str | bytes) and not self._inside(os.fsdecode(arguments[0])):
                self._note(f"{event} {arguments!r:.200}")
        elif event == "exec":
            name = getattr(arguments[0], "co_filename", "")
            if os.path.isabs(name) and self._inside(name):
                self._note(f"runs code of {name}")

    def _inside(self, path: str) -> bool:
        whole = os.path.realpath(path)
        return whole.startswith(self.folder) or path in ("/dev/null", ".") or not os.path.isabs(path)

    def _note(self, text: str) -> None:
        self.seen.append(text)


def changed(content: bytes, chance: random.Random) -> bytes:
    """Change a file in one to four places, as bad disks and bad people do."""
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(content) + 1)
        kind = chance.randrange(7)
        if kind == 0:
            content = content[:at]
        elif kind == 1:
            content = content[:at] + bytes([chance.randrange(256)]) + content[at + 1 :]
        elif kind == 2:
            content = content[:at] + content[at + chance.randint(1, 300) :]
        elif kind == 3:
            begin = chance.randrange(len(content) + 1)
            content = content[:at] + content[begin : begin + 500] + content[at:]
        elif kind == 4:
            content = content[:at] + chance.choice(ODD) + content[at:]
        elif kind == 5:
            content = content[:at] + chance.choice(ODD) + content[at + chance.randint(1, 12) :]
        elif at < len(content):
            content = content[:at] + bytes([content[at] ^ 1 << chance.randrange(8)]) + content[at + 1 :]
    return content


def fuzz(name: str, seed: int, count: int, folder: Path) -> None:
    """Read `count` changed files with one reader; prints what it finds as JSON lines."""
    from tests.fuzz.readers import READERS

    reader = READERS[name]
    os.environ["HOME"] = os.environ["XDG_CACHE_HOME"] = str(folder)
    os.environ["TMPDIR"], tempfile.tempdir = str(folder), None
    os.chdir(folder)
    sound = folder / "sound"
    sound.mkdir()
    reader.prepare(sound)
    files = [path for path in sorted(sound.rglob("*")) if path.is_file()]
    contents = {path.relative_to(sound): path.read_bytes() for path in files}
    if (sound / "request").exists():  # the other files belong to the server
        contents = {Path("request"): contents[Path("request")]}
    shutil.copytree(sound, folder / "first/in")
    reader.read(folder / "first/in")  # what is loaded late is loaded now
    signal.signal(signal.SIGALRM, _late)
    watch, refused, slowest = Watch(folder), 0, 0.0
    for number in range(seed, seed + count):
        chance = random.Random(f"{name} {number}")
        place = folder / "one"
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(sound, place / "in")
        for path in chance.sample(sorted(contents), min(len(contents), chance.choice((1, 1, 2)))):
            (place / "in" / path).write_bytes(changed(contents[path], chance))
        began, said = time.monotonic(), ""
        watch.seen.clear()
        signal.alarm(HANG_S)
        watch.on = True
        try:
            reader.read(place / "in")
        except reader.refuses:
            refused += 1
        except Hang:
            said = f"takes more than {HANG_S} s"
        except BaseException as error:
            last = traceback.extract_tb(error.__traceback__)[-1]
            said = f"{type(error).__name__}: {error!s:.200} ({Path(last.filename).name}:{last.lineno})"
        finally:
            watch.on = False
            signal.alarm(0)
        slowest = max(slowest, time.monotonic() - began)
        for text in [said] if said else watch.seen[:3]:
            print(json.dumps({"seed": number, "finding": text}), flush=True)
    memory = _peak_memory()
    if memory > MOST_MEMORY:
        print(json.dumps({"seed": seed, "finding": f"{memory >> 20} MiB of memory"}))
    print(
        json.dumps({"inputs": count, "refused": refused, "slowest_s": slowest, "memory": memory}), flush=True
    )


def _peak_memory() -> int:
    """Return the most memory of this process, in bytes. `ru_maxrss` begins with that of its parent."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM:"))


def _late(*_: object) -> None:
    raise Hang


if __name__ == "__main__":
    fuzz(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
