"""Who may import whom, what `import holter` loads, and what the recorder may stand on."""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import holter

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
RECORDER = sorted((SOURCE / "holter" / "recorder").rglob("*.py"))
# What a training process loads: the recorder and the parts of the schema that describe the spool.
IN_TRAINING = [
    SOURCE / "holter" / "__init__.py",
    SOURCE / "holter" / "schema" / "__init__.py",
    SOURCE / "holter" / "schema" / "record.py",
    SOURCE / "holter" / "schema" / "phases.py",
    *RECORDER,
]
PUBLIC = {
    "Job",
    "__version__",
    "annotate",
    "annotation_begin",
    "annotation_end",
    "load_ipython_extension",
    "log",
    "open",
    "phase",
    "rules",
    "save_tensor",
    "start",
    "step",
    "steps",
    "stop",
    "ui",
    "unload_ipython_extension",
    "watch",
}


def modules_after(statements: str, *, python: str = sys.executable) -> set[str]:
    """Run statements with only the standard library and our source at hand; list the modules then loaded."""
    lines = (
        f"import sys; sys.path.insert(0, {str(SOURCE)!r})",
        statements,
        "import json; print(json.dumps(list(sys.modules)))",
    )
    done = subprocess.run(
        [python, "-I", "-S", "-c", "\n".join(lines)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout.splitlines()[-1]))


def foreign(modules: set[str]) -> set[str]:
    """Keep what is neither the standard library nor ours."""
    return {name.split(".")[0] for name in modules} - set(sys.stdlib_module_names) - {"holter", "__main__"}


def test_import_contract_holds() -> None:
    program = "import sys; from importlinter.cli import lint_imports_command as main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program, "--no-cache"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert " 0 broken" in done.stdout


def test_importing_holter_loads_only_the_standard_library() -> None:
    loaded = modules_after("import holter")
    assert not foreign(loaded)
    assert not {name for name in loaded if name.startswith("holter.")}, "a room was imported before its use"


def test_public_names_are_frozen() -> None:
    assert set(holter.__all__) == PUBLIC


@pytest.mark.parametrize("name", sorted(PUBLIC - {"__version__"}))
def test_each_public_name_has_a_home(name: str) -> None:
    assert getattr(holter, name).__doc__, f"holter.{name} has no docstring"


def test_an_unknown_name_is_answered_with_the_known_ones() -> None:
    with pytest.raises(AttributeError, match="annotate"):
        holter.anotate  # noqa: B018


def test_the_recorder_needs_only_the_standard_library() -> None:
    names = [
        ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")
        for path in RECORDER
        if "bootstrap" not in path.parts
    ]
    assert names, "there is no recorder"
    assert not foreign(modules_after("\n".join(f"import {name}" for name in names)))


@pytest.mark.parametrize("library", ["xgboost", "lightgbm"])
def test_an_adapter_of_trees_loads_neither_torch_s_adapter_nor_what_saves_tensors(library: str) -> None:
    loaded = modules_after(f"import holter.recorder.frameworks.{library}")
    assert "holter.recorder.frameworks.trees.rounds" in loaded
    assert not [
        name
        for name in loaded
        if name.startswith(("holter.recorder.frameworks.pytorch", "holter.recorder.tensors"))
    ]


@pytest.mark.parametrize("path", IN_TRAINING, ids=lambda path: str(path.relative_to(SOURCE)))
def test_what_runs_in_training_is_python_3_10(path: Path) -> None:
    ast.parse(path.read_text(), filename=str(path), feature_version=(3, 10))


def test_the_recorder_is_imported_by_python_3_10() -> None:
    found = _python_3_10()
    if found is None:
        pytest.skip("no working Python 3.10 here; the syntax is checked against its grammar all the same")
    plain = [path.stem for path in RECORDER if path.parent.name == "recorder" and path.stem != "__init__"]
    assert plain
    modules_after("\n".join(f"import holter.recorder.{name}" for name in plain), python=found)


def _python_3_10() -> str | None:
    candidates = [shutil.which("python3.10"), *map(str, Path.home().glob(".pyenv/versions/3.10*/bin/python"))]
    for candidate in filter(None, candidates):
        done = subprocess.run(
            [candidate, "-c", "import sys; print(sys.version_info[:2])"], capture_output=True
        )
        if done.stdout.strip() == b"(3, 10)":  # a version manager's stub exists and fails
            return candidate
    return None
