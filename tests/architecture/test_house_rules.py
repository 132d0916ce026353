"""House rules that a linter does not know: names, sizes, first sentences, no trace of one machine."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = ("src", "tests", "benchmarks", "examples")
PYTHON = sorted(
    path
    for room in ROOMS
    for path in (ROOT / room).rglob("*.py")
    if not any(part.startswith(".") or part == "__pycache__" for part in path.parts[len(ROOT.parts) :])
)
VAGUE = {"utils", "util", "core", "common", "helpers", "helper", "base", "manager", "handler"} | {
    "processor",
    "misc",
    "tools",
}
LONGEST = 400
"""Lines of a file. CONTRIBUTING asks for 300; a file that is one thing may be a little longer."""


def _id(path: Path) -> str:
    return str(path.relative_to(ROOT))


def _tracked() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode != 0:  # an unpacked archive has no git; then its files are all there is
        return [path for path in ROOT.rglob("*") if path.is_file() and ".venv" not in path.parts]
    return [ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


@pytest.mark.parametrize("path", PYTHON, ids=_id)
def test_file_opens_with_one_sentence(path: Path) -> None:
    text = ast.get_docstring(ast.parse(path.read_text()))
    assert text, "the file has no docstring"
    first = text.split("\n\n")[0]
    assert first.rstrip()[-1] in ".:?`", f"not a sentence: {first!r}"


@pytest.mark.parametrize("path", PYTHON, ids=_id)
def test_file_is_not_too_long(path: Path) -> None:
    lines = len(path.read_text().splitlines())
    assert lines <= LONGEST, f"{lines} lines; split it by what its parts are about"


UPSTREAM = ROOT / "src/holter/compat/smdebug"
"""Paths that users of smdebug import; its names are not ours to choose."""


@pytest.mark.parametrize("path", [path for path in PYTHON if UPSTREAM not in path.parents], ids=_id)
def test_no_vague_names(path: Path) -> None:
    words = {word for part in path.relative_to(ROOT).with_suffix("").parts for word in part.split("_")}
    assert not words & VAGUE


def test_no_trace_of_one_machine() -> None:
    # Written in pieces, so that this file does not contain what it looks for.
    traces = re.compile(
        "|".join(
            ["/wor" + r"k/\w", "/ro" + r"ot/\.", "/opt/" + "wheels", "/opt/" + "pypi", "find-" + "links"]
        )
    )
    found = []
    for path in _tracked():
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue
        found += [
            f"{_id(path)}:{n}: {line.strip()}"
            for n, line in enumerate(text.splitlines(), 1)
            if traces.search(line)
        ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("name", ["setup", "test", "try"])
def test_scripts_are_sound_shell(name: str) -> None:
    script = ROOT / "scripts" / name
    assert script.stat().st_mode & 0o111, "not executable"
    done = subprocess.run(["bash", "-n", str(script)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
