"""The documentation's site: it builds without a broken link, and asks nothing of any other machine."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("zensical", reason="the extra `docs` is not installed")
pytest.importorskip("mkdocstrings", reason="the extra `docs` is not installed")

ROOT = Path(__file__).parents[2]
LOADED = re.compile(
    r"""<(?:script|img|iframe)[^>]*\ssrc=["']?(https?:)?//|<link(?![^>]*canonical)[^>]*href=["']?(https?:)?//"""
)
IMPORTED = re.compile(r"""(@import|url\()\s*["']?(https?:)?//""")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("made") / "site"
    words = [sys.executable, "scripts/docs_site.py", "--site", str(made)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return made


@pytest.mark.slow
def test_pages_and_styles_load_nothing_from_elsewhere(site: Path) -> None:
    for page in site.rglob("*.html"):
        assert not LOADED.search(page.read_text()), page
    for style in site.rglob("*.css"):
        assert not IMPORTED.search(style.read_text(errors="replace")), style


@pytest.mark.slow
def test_every_page_is_there_and_in_the_navigation(site: Path) -> None:
    tabs = (site / "index.html").read_text()
    for shelf in ("tutorials", "how-to", "reference", "explanation", "decisions"):
        names = sorted(page.with_suffix(".html").name for page in (ROOT / "docs" / shelf).glob("*.md"))
        first = (site / shelf / names[0]).read_text()
        assert f'href="{shelf}/' in tabs, f"{shelf} is no tab"
        for name in names:
            assert (site / shelf / name).is_file()
            assert f'href="./{name}"' in first or name == names[0], f"{shelf}/{name} is not in the navigation"


@pytest.mark.slow
def test_the_reference_is_what_the_code_says(site: Path) -> None:
    commands = (site / "reference/commands.html").read_text()
    assert "holter describe" in commands
    assert "--otlp" in commands
    assert "hang-after" in (site / "reference/configuration.html").read_text()
    library = (site / "reference/library.html").read_text()
    for name in ("holter.job.Job.summary", "holter.rules.Rule", "holter.recorder.annotate.step"):
        assert f'id="{name}"' in library, name
