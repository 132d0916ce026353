"""The structure of the package: folders, imports without cycles, independent plug-ins, unique class names."""

from __future__ import annotations

import ast
import graphlib
import importlib.util
import re
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
MOST_MODULES = 30
LIBRARY_CALLS_JOB = ("holter.rules", "holter.job")
"""`holter.rules.run(job)` is imported when it is asked for; it is the only import against the layers."""
PLUGINS = {
    "holter.actions": "",
    "holter.agent.collectors": "",
    "holter.cli.commands": "",
    "holter.dashboard.api": "",
    "holter.pages.drawer": "",
    "holter.pages.job": "",
    "holter.pages.profile": "",
    "holter.report.exports": "",
    "holter.rules": "system framework training learning tensors data reliability",
    "holter.views.figures": "steps loading device machine training tensors",
}
"""Packages whose modules are plug-ins; those with sub-packages that hold them name these."""
HARD_TO_READ = re.compile(
    r"\b(is|are|was|were) none\b|\bfor who\b|\bto who\b|, who [a-z]+s\b|\b(is|are|was|were) told (by|of|to)\b"
    r"|\bthat is no (?!longer|more|less)[a-z]+\b|\bnone of ours\b|\bwhat nobody\b"
)


def _sources() -> dict[str, Path]:
    found = {}
    for path in sorted((SOURCE / "holter").rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@cache
def _imports() -> dict[str, set[str]]:
    """Return what each module imports of the package, also under `TYPE_CHECKING` and inside functions."""
    sources = _sources()
    graph: dict[str, set[str]] = {}
    for name, path in sources.items():
        found = graph[name] = set()
        for node in ast.walk(_tree(path)):
            if isinstance(node, ast.Import):
                found |= {one.name for one in node.names if one.name in sources}
            elif isinstance(node, ast.ImportFrom) and node.module in sources:
                inner = {f"{node.module}.{one.name}" for one in node.names}
                found |= (inner & sources.keys()) or {node.module}
        found.discard(name)
    return graph


def _map():
    spec = importlib.util.spec_from_file_location("map_of_the_source", ROOT / "scripts" / "map.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_map_is_current() -> None:
    page = (ROOT / "docs/reference/map.md").read_text()
    assert page == _map().page(), "run: python scripts/map.py > docs/reference/map.md"


def test_no_folder_is_crowded() -> None:
    made = _map()
    crowded = {
        str(one): len(made.modules(one)) for one in made.folders() if len(made.modules(one)) > MOST_MODULES
    }
    assert not crowded


def test_no_import_cycles() -> None:
    graph = {name: set(found) for name, found in _imports().items()}
    below, above = LIBRARY_CALLS_JOB
    graph[below].discard(above)
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        raise AssertionError(" -> ".join(error.args[1])) from None


@pytest.mark.parametrize("shelf", PLUGINS)
def test_plugins_do_not_import_one_another(shelf: str) -> None:
    folders = [f"{shelf}.{folder}" for folder in PLUGINS[shelf].split()] or [shelf]
    plugins = {
        name
        for name in _sources()
        if name.rpartition(".")[0] in folders and not name.rpartition(".")[2].startswith("_")
    }
    assert plugins
    found = {f"{name} -> {other}" for name in plugins for other in _imports()[name] & plugins}
    assert not found


def test_class_names_are_unique() -> None:
    places = defaultdict(set)
    for name, path in _sources().items():
        if name.startswith("holter.compat"):
            continue  # its names are those of other libraries
        for node in _tree(path).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].add(name)
    assert not {name: sorted(found) for name, found in places.items() if len(found) > 1}


def test_sentences_are_plain() -> None:
    found = []
    for folder, kinds in (
        ("src", ("*.py", "*.js", "*.c", "*.h")),
        ("docs", ("*.md",)),
        ("examples", ("*.py", "*.md")),
    ):
        for kind in kinds:
            for path in (ROOT / folder).rglob(kind):
                if "vendor" in path.parts:
                    continue
                text = path.read_text()
                found += [f"{path.relative_to(ROOT)}: {match[0]}" for match in HARD_TO_READ.finditer(text)]
    assert not found, f"{len(found)} places: {found[:40]}"


def test_each_rule_has_its_test_file() -> None:
    lacking = []
    for folder in PLUGINS["holter.rules"].split():
        for path in (SOURCE / "holter/rules" / folder).glob("[!_]*.py"):
            test = ROOT / "tests/rules" / folder / f"test_{path.name}"
            named = "".join(word.capitalize() for word in path.stem.split("_")).casefold()
            classes = {node.name for node in _tree(path).body if isinstance(node, ast.ClassDef)}
            rule = next(name for name in classes if name.casefold() == named)
            if not test.exists() or rule not in test.read_text():
                lacking.append(f"{test.relative_to(ROOT)} tests {rule}")
    assert not lacking
