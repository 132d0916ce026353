"""Functions of C, compiled once where a compiler is at hand, kept for this user, loaded where they are trusted.

Trusted is a file of this user that no other may write, made from the same source for this processor.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import shlex
import shutil
import stat
import subprocess
from pathlib import Path
from typing import Any

from holter.schema.record import ENV_COMPILE

_FLAGS = ("-shared", "-fPIC")
_TUNED = "-march=native"
_PATIENCE_S = 20


class Compiled:
    """One file of C, or of C++ that needs nothing of its library.

    Args:
        source: The file.
        effort: How hard the compiler shall try, as its option.
        options: More of its options.
    """

    def __init__(self, source: Path, effort: str = "-O2", options: tuple[str, ...] = ()) -> None:
        self.source = source
        self._options = (effort, *options)

    def path(self) -> Path:
        """Return where the compiled file of this source lies for this processor."""
        root = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
        key = hashlib.sha256(self.source.read_bytes())
        key.update(f"{platform.system()} {platform.machine()} {_processor()}".encode())
        return Path(root, "holter", f"{self.source.stem}-{key.hexdigest()[:16]}.so")

    def compile(self) -> bool:
        """Compile it if that was not done before; return whether it is there. Takes a second, once."""
        try:
            if not _wanted():
                return False
            target = self.path()
            if _trusted(target):
                return True
            command = shlex.split(os.environ.get("CC", "cc"))
            if not (command and shutil.which(command[0])):
                return False
            target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            draft = target.with_name(f".{target.name}.{os.getpid()}")
            flags = (*self._options, *_FLAGS)
            try:
                for tried in ((*flags, _TUNED), flags):
                    done = subprocess.run(
                        [*command, *tried, str(self.source), "-o", str(draft), "-lm"],
                        stdin=subprocess.DEVNULL,
                        capture_output=True,
                        timeout=_PATIENCE_S,
                        check=False,
                    )
                    if done.returncode == 0:
                        draft.chmod(0o700)
                        draft.replace(target)
                        break
            finally:
                draft.unlink(missing_ok=True)
            return _trusted(target)
        except (OSError, ValueError, subprocess.SubprocessError):
            return False

    def load(self) -> Any:
        """Return the library, None where it is not there or not trusted."""
        try:
            target = self.path()
            return ctypes.CDLL(str(target)) if _wanted() and _trusted(target) else None
        except OSError:
            return None


def observer() -> Compiled:
    """Return what collects operators in windows: trainings load it, whoever goes with one compiles it."""
    source = Path(__file__).parents[1] / "recorder" / "profilers" / "observer.cpp"
    return Compiled(source, options=("-std=c++17", "-fno-exceptions", "-fno-rtti"))


def _wanted() -> bool:
    return os.environ.get(ENV_COMPILE, "1") != "0"


def _trusted(target: Path) -> bool:
    """Whether a file, and the directory that it is in, are this user's and nobody else's to write."""
    try:
        status = [os.lstat(target), os.stat(target.parent)]
    except OSError:
        return False
    return stat.S_ISREG(status[0].st_mode) and all(
        one.st_uid == os.geteuid() and not one.st_mode & 0o022 for one in status
    )


def _processor() -> str:
    """Return what sets this processor apart: unlike machines share home directories."""
    try:
        with open("/proc/cpuinfo") as file:
            lines = file.read(1 << 16).split("\n\n")[0].splitlines()
    except OSError:
        return platform.processor()
    return "\n".join(line for line in lines if line.startswith(("flags", "Features", "model", "CPU part")))
