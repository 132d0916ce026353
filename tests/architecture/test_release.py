"""A release is the same bytes whatever it is built in, and its requirements are pinned with hashes."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import tomllib

ROOT = Path(__file__).parents[2]
REQUIREMENT = re.compile(r"^([a-z0-9-]+)==(\S+)[^\n]*((?: \\\n +--hash=sha256:[0-9a-f]{64})+)$", re.MULTILINE)


def sources() -> list[str]:
    """What the repository holds, and the files that npm brings, so that a build needs no network."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    names = [name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]
    vendor = ROOT / "src/holter/pages/app/vendor"
    return names + [str(path.relative_to(ROOT)) for path in vendor.rglob("*") if path.is_file()]


def built(names: list[str], folder: Path, to: Path, *, umask: int, age_s: int, **environment: str) -> dict:
    """Copy the sources in this order, build them, and return the hash of each file."""
    before = os.umask(umask)
    try:
        for name in names:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes((ROOT / name).read_bytes())
            (folder / name).chmod(0o777 & ~umask if os.access(ROOT / name, os.X_OK) else 0o666 & ~umask)
            moment = (folder / name).stat().st_mtime - age_s
            os.utime(folder / name, (moment, moment))
        subprocess.run(
            [folder / "scripts/build", to],
            env={**os.environ, "PYTHON": sys.executable, **environment},
            check=True,
            capture_output=True,
            timeout=600,
        )
    finally:
        os.umask(before)
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in to.iterdir()}


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("git") is None or not (ROOT / ".git").exists(), reason="needs a checkout")
def test_two_builds_make_the_same_bytes(tmp_path):
    names = sources()
    one = built(names, tmp_path / "a", tmp_path / "one", umask=0o022, age_s=0, TZ="UTC", LC_ALL="C")
    other = built(
        names[::-1],
        tmp_path / "a folder with another name",
        tmp_path / "other",
        umask=0o077,
        age_s=400 * 86400,
        TZ="Pacific/Auckland",
        LC_ALL="C.UTF-8",
        PYTHONHASHSEED="7",
        # Nothing that the first build has compiled is used again.
        ZIG_GLOBAL_CACHE_DIR=str(tmp_path / "zig"),
    )
    assert len(one) >= 2
    assert one == other


@pytest.mark.parametrize("name", ["runtime", "build"])
def test_requirements_are_pinned_with_hashes(name):
    text = (ROOT / f"requirements/{name}.txt").read_text()
    found = {name: version for name, version, _ in REQUIREMENT.findall(text)}
    lines = [line for line in text.splitlines() if not line.startswith((" ", "#"))]
    assert len(found) == len(lines), "each is pinned and has a hash"
    assert "://" not in text, "a registry is the user's choice"
    pins = re.findall(r"^([A-Za-z0-9._-]+)==(\S+)", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    for one, version in pins:
        assert found.get(plain(one), version) == version, "run scripts/lock"
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    asked = {
        "runtime": project["project"]["dependencies"],
        "build": [*project["dependency-groups"]["release"], *project["build-system"]["requires"]],
    }[name]
    missing = {plain(re.split(r"[>=<;\[ ]", text)[0]) for text in asked} - set(found)
    assert not missing, "run scripts/lock"


def plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
