"""Collects the code revision, packages and settings of a job, without secrets, to compare jobs later."""

from __future__ import annotations

import contextlib
import getpass
import os
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from holter.schema.masking import masked_in

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from holter.store.document_types import SurroundingsEntry

SETTINGS = re.compile(
    r"(CUDA|CUDNN|GLOO|HIP|HSA|JAX|KMP|MALLOC|MKL|NCCL|NUMEXPR|OMP|OPENBLAS|PYTORCH|RCCL|ROCR|"
    r"TF(?!_(?:CLI|DATA_DIR|LOG|VAR))|TORCH|TORCHINDUCTOR|XLA)_[A-Z0-9_]+|"
    r"LD_PRELOAD|PYTHONHASHSEED|TOKENIZERS_PARALLELISM"
)
"""Environment variables that decide how fast a training runs. Others are not looked at: some hold secrets.
Terraform's begin like TensorFlow's, and can."""
_SECRET = re.compile(r"KEY|SECRET|PASS|CREDENTIAL|AUTH|TOKEN(?!IZERS)")
_REVISION = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_REF = re.compile(r"refs/[\w./+@#%=,-]{1,250}")
"""Where git keeps the revision of a branch. With `..` in it, it would be any file."""
_LONGEST_LINE = 4096
_MOST_PACKAGES = 3000
_MOST_TEXT = 500


def surroundings(command: Sequence[str], folder: Path, environment: Mapping[str, str]) -> SurroundingsEntry:
    """Return the code revision, packages and settings of a command without running it.

    The packages are those of its Python; the revision is that of the git repository of the folder.
    """
    found: SurroundingsEntry = {}
    with contextlib.suppress(OSError, ValueError):
        if code := _code(folder):
            found["code"] = code
    with contextlib.suppress(OSError, ValueError):
        if packages := _packages(_interpreter(command[0], environment)):
            found["packages"] = packages
    wanted = (name for name in sorted(environment) if SETTINGS.fullmatch(name) and not _SECRET.search(name))
    if settings := {name: masked_in(environment[name], name)[:_MOST_TEXT] for name in wanted}:
        found["settings"] = settings
    return found


def owner() -> str | None:
    """Return the name of the user whose job this is; None if the user has no name, as in some containers."""
    try:
        return getpass.getuser()[:_MOST_TEXT]
    except (OSError, KeyError, ImportError):
        return None


def _code(folder: Path) -> dict[str, str]:
    """Read which revision is checked out, as git writes it down.

    The folder can belong to anybody, so only valid revisions and names of revisions are returned.
    """
    for parent in (folder, *folder.parents):
        git = parent / ".git"
        if git.is_file():  # a work tree or a submodule: the file says where the rest is
            git = parent / _line(git).removeprefix("gitdir:").strip()
        if not (git / "HEAD").is_file():
            continue
        head = _line(git / "HEAD")
        if _REVISION.fullmatch(head):
            return {"revision": head}
        branch = head.removeprefix("ref:").strip()
        if not head.startswith("ref:") or not _REF.fullmatch(branch) or ".." in branch:
            return {}
        named = {"branch": branch.removeprefix("refs/heads/")}
        common = git / "commondir"
        places = [git, git / _line(common)] if common.is_file() else [git]
        for place in places:
            if (place / branch).is_file() and _REVISION.fullmatch(revision := _line(place / branch)):
                return {"revision": revision, **named}
            if (place / "packed-refs").is_file():
                with open(place / "packed-refs", errors="replace") as packed:
                    for line in packed:
                        revision, _, name = line.strip().partition(" ")
                        if name == branch and _REVISION.fullmatch(revision):
                            return {"revision": revision, **named}
        return named
    return {}


def _line(path: Path) -> str:
    """Return the first line of a file, without its end."""
    with open(path, errors="replace") as file:
        return file.readline(_LONGEST_LINE).strip()


def _interpreter(program: str, environment: Mapping[str, str]) -> Path | None:
    """Return the Python that a program is, or that its first line names (torchrun, accelerate)."""
    path = shutil.which(program, path=environment.get("PATH"))
    if path is None:
        return None
    if re.fullmatch(r"python[0-9.]*", os.path.basename(path)):
        return Path(path)
    with open(path, "rb") as script:
        first = script.readline(1000)
    words = first[2:].decode(errors="replace").split() if first.startswith(b"#!") else []
    if words and os.path.basename(words[0]) == "env":
        words = [shutil.which(word, path=environment.get("PATH")) or "" for word in words[1:2]]
    return Path(words[0]) if words and "python" in os.path.basename(words[0]) else None


def _packages(python: Path | None) -> dict[str, str]:
    """Return the packages of an interpreter, from the names of the folders that installers leave."""
    if python is None:
        return {}
    prefixes = (python.parent.parent, python.resolve().parent.parent)
    own = [prefix for prefix in prefixes[:1] if (prefix / "pyvenv.cfg").is_file()]
    found: dict[str, str] = {}
    for prefix in own or prefixes:
        for listed in sorted(prefix.glob("lib/python3*/*-packages/*.dist-info"))[:_MOST_PACKAGES]:
            name, _, version = listed.name.removesuffix(".dist-info").rpartition("-")
            if name:
                found.setdefault(name.lower().replace("_", "-"), version)
    return dict(sorted(found.items()))
