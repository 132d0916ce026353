"""Documentation in step with the code: generated pages, links, file names, commands, options."""

from __future__ import annotations

import contextlib
import io
import re
import runpy
from importlib import import_module
from pathlib import Path

import pytest

from holter.cli import main

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")])
SOURCE_NAMES = re.compile(r"`((?:src/holter|tests|docs|scripts|examples|benchmarks|\.ci)/[\w./*-]+)`")
LINKS = re.compile(r"\]\((?!\w+:)([^)#]+)(?:#[^)]*)?\)")
COMMANDS = re.compile(
    r"holter (run|demo|jobs|describe|diagnose|rules|export|stop|prune|doctor|report|compare|check|import"
    r"|profile|configure|ui)\b([^`\n#|]*)"
)
OPTIONS = re.compile(r"(?<![\w-])--[a-z][a-z-]+")


def _id(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("room", ["schema", "rules"])
def test_a_reference_page_is_what_the_code_says(room: str) -> None:
    page = import_module(f"holter.{room}.__main__").page
    told = (ROOT / f"docs/reference/{room}.md").read_text()
    assert told == page(), f"run: python -m holter.{room} > docs/reference/{room}.md"


@pytest.mark.parametrize("path", PAGES, ids=_id)
def test_links_lead_somewhere(path: Path) -> None:
    text = re.sub(r"`[^`\n]*`", "", path.read_text())
    broken = [link for link in LINKS.findall(text) if not (path.parent / link).exists()]
    assert not broken


@pytest.mark.parametrize("path", PAGES, ids=_id)
def test_named_files_exist(path: Path) -> None:
    gone = [name for name in SOURCE_NAMES.findall(path.read_text()) if not any(ROOT.glob(name.rstrip("/")))]
    assert not gone


@pytest.fixture(scope="module")
def help_of() -> dict[str, str]:
    """Ask each command for its help, once."""
    return {}


@pytest.mark.parametrize("path", PAGES, ids=_id)
def test_named_options_exist(path: Path, help_of: dict[str, str]) -> None:
    unknown = []
    for command, rest in COMMANDS.findall(path.read_text()):
        for option in OPTIONS.findall(rest.split(" -- ")[0]):
            if command not in help_of:
                with contextlib.redirect_stdout(io.StringIO()) as said, contextlib.suppress(SystemExit):
                    main([command, "--help"])
                help_of[command] = said.getvalue()
            if option not in help_of[command]:
                unknown.append(f"holter {command} {option}")
    assert not unknown


def test_decisions_are_numbered_without_gaps() -> None:
    names = sorted(path.name for path in (ROOT / "docs/decisions").glob("[0-9]*.md"))
    assert [int(name[:4]) for name in names] == list(range(1, len(names) + 1))


@pytest.mark.parametrize("path", sorted((ROOT / "docs/decisions").glob("[0-9]*.md")), ids=_id)
def test_a_decision_says_what_was_rejected(path: Path) -> None:
    text = path.read_text()
    assert all(heading in text for heading in ("## Context", "## Choice", "## Rejected", "## Consequence"))


def test_the_index_of_decisions_is_current() -> None:
    page = runpy.run_path(str(ROOT / "scripts/decisions.py"))["page"]()
    told = (ROOT / "docs/decisions/index.md").read_text()
    assert told == page, "run: python scripts/decisions.py > docs/decisions/index.md"
