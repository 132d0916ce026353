"""Print what the tests check of each framework: python scripts/matrix.py > docs/reference/frameworks.md.

Collects the tests that have a marker `capability`, without running them.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
HEAD = """# Frameworks

What holter records of each framework. A ✓ stands for at least one test that checks it; a blank says that no
test does. `python scripts/matrix.py` makes this page from markers of the tests; a test compares both.

"""
TITLE = re.compile(r"^# Record (.+)$", re.MULTILINE)

Claims = dict[str, dict[str, dict[str, str]]]
"""Framework → capability → test → details."""


class Collected:
    """A plug-in of pytest that keeps the collected tests."""

    items: list[pytest.Item]

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.items = session.items


def collected() -> list[pytest.Item]:
    """Return the tests of all files that claim a capability."""
    files = [
        path for path in sorted((ROOT / "tests").rglob("test_*.py")) if "mark.capability" in path.read_text()
    ]
    plugin, said = Collected(), io.StringIO()
    words = ["--collect-only", "-qq", "--rootdir", str(ROOT), "-p", "no:cacheprovider", *map(str, files)]
    with contextlib.redirect_stdout(said), contextlib.chdir(ROOT):
        status = pytest.main(words, plugins=[plugin])
    if status:
        raise SystemExit(said.getvalue())
    return plugin.items


def claims(items: list[pytest.Item], known: dict[str, tuple[str, str]]) -> Claims:
    """Return what the markers of tests claim; of parametrized tests the function counts once."""
    found: Claims = defaultdict(lambda: defaultdict(dict))
    for item in items:
        test = f"{item.path.relative_to(ROOT)}::{item.originalname}"
        for marker in item.iter_markers("capability"):
            framework, *names = marker.args
            if not (names or marker.kwargs):
                raise SystemExit(f"{test}: a marker of {framework} names no capability")
            for name in (*names, *marker.kwargs):
                if name not in known:
                    raise SystemExit(f"{test}: unknown capability {name!r}; known are {', '.join(known)}")
                found[framework][name][test] = marker.kwargs.get(name) or found[framework][name].get(test, "")
    return found


def guides() -> dict[str, str]:
    """Return the title of each how-to page about a framework, and its link."""
    pages = sorted((ROOT / "docs/how-to").glob("record-*.md"))
    return {TITLE.search(page.read_text())[1]: f"../how-to/{page.name}" for page in pages}


def name_of(framework: str, pages: dict[str, str]) -> str:
    """Return a framework's name, with a link to the page whose title has its first word."""
    word = re.compile(rf"\b{re.escape(framework.split()[0])}\b")
    link = next((link for title, link in pages.items() if word.search(title)), None)
    return f"[{framework}]({link})" if link else framework


def page(found: Claims, known: dict[str, tuple[str, str]]) -> str:
    """Return the page as Markdown."""
    pages = guides()
    lines = ["| framework | " + " | ".join(title for title, _ in known.values()) + " |"]
    lines.append("|---|" + ":-:|" * len(known))
    for framework in sorted(found, key=str.casefold):
        cells = ("✓" if found[framework].get(name) else "" for name in known)
        lines.append(f"| {name_of(framework, pages)} | " + " | ".join(cells) + " |")
    lines += ["", "| column | a test checks |", "|---|---|"]
    lines += [f"| {title} | {meaning} |" for title, meaning in known.values()]
    for framework in sorted(found, key=str.casefold):
        lines += ["", f"## {framework}", "", "| | what | tests |", "|---|---|---|"]
        for name, (title, _) in known.items():
            tests = found[framework].get(name, {})
            if tests:
                what = "; ".join(dict.fromkeys(filter(None, (tests[test] for test in sorted(tests)))))
                lines.append(f"| {title} | {what} | {'<br>'.join(f'`{test}`' for test in sorted(tests))} |")
    return HEAD + "\n".join(lines) + "\n"


def main() -> None:
    """Print the page."""
    for name in [name for name in os.environ if name.startswith("PYTEST_")]:  # of tests that call this script
        del os.environ[name]
    sys.path.insert(0, str(ROOT))
    from tests.frameworks.capabilities import CAPABILITIES

    print(page(claims(collected(), CAPABILITIES), CAPABILITIES), end="")


if __name__ == "__main__":
    main()
