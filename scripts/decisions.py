"""Print the index of the decisions: python scripts/decisions.py > docs/decisions/index.md."""

from __future__ import annotations

import re
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "docs" / "decisions"
DECISION = re.compile(r"# (?P<number>\d+)\. (?P<title>.+)\n\nStatus: (?P<status>.+)\.\n")
HEAD = """# Decisions

Each choice that a newcomer would question has a page: context, choice, what was rejected, consequence.
Written by `python scripts/decisions.py`; a test compares this page with the decisions.

| decision | status |
|---|---|
"""


def page() -> str:
    """Return the index as Markdown.

    Raises:
        ValueError: A decision does not begin with its number, its title and its status.
    """
    rows = []
    for path in sorted(FOLDER.glob("[0-9]*.md")):
        found = DECISION.match(path.read_text())
        if found is None:
            raise ValueError(f"{path.name} must begin with '# N. Title', an empty line and 'Status: ….'")
        rows.append(f"| [{found['number']}. {found['title']}]({path.name}) | {found['status']} |")
    return HEAD + "\n".join(rows) + "\n"


if __name__ == "__main__":
    print(page(), end="")
