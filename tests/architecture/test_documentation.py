"""Documentation in step with the code: generated pages, links, file names, commands, options."""

from __future__ import annotations

import contextlib
import io
import re
import runpy
import subprocess
import sys
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


def test_the_matrix_of_frameworks_is_what_the_tests_claim() -> None:
    # In a process of its own, because it collects tests.
    done = subprocess.run(
        [sys.executable, "scripts/matrix.py"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    told = (ROOT / "docs/reference/frameworks.md").read_text()
    assert told == done.stdout, "run: python scripts/matrix.py > docs/reference/frameworks.md"


def test_pictures_of_frameworks_are_made_by_a_script_and_stand_on_their_pages() -> None:
    made = set(runpy.run_path(str(ROOT / "scripts/picture.py"))["TRAININGS"])
    pictures = {path.stem: path.read_text() for path in (ROOT / "docs/pictures").glob("*.svg")}
    assert pictures.keys() == made
    for name, picture in pictures.items():
        assert f"../pictures/{name}.svg)" in (ROOT / f"docs/how-to/record-{name}.md").read_text()
        shown = picture.replace("&#160;", " ")
        assert "holter run" in shown
        card = "something repeats about every" if name == "any-program" else r"a step (· \d ranks )?──"
        assert re.search(card, shown)
        assert not re.findall(r"https?://(?!www\.w3\.org/)", picture), "a picture asks no other machine"


def test_the_recorded_session_is_of_the_command_that_its_script_types_and_ends_with_the_card() -> None:
    recording = runpy.run_path(str(ROOT / "scripts/recording.py"))
    picture = (ROOT / "docs/session.svg").read_text()
    # Each text of a screen is an element of its own, and a screen that stays is drawn once.
    words = set(re.findall(r">([^<>]+)</text>", picture))
    assert {*recording["TYPED"].split(), "recording", "slow_transform", "evidence", "advice"} <= words
    assert "@keyframes" in picture
    assert not re.findall(r"https?://(?!www\.w3\.org/)", picture), "a picture asks no other machine"
    for page in ("docs/index.md", "docs/tutorials/first-job.md"):
        assert "session.svg)" in (ROOT / page).read_text()


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
