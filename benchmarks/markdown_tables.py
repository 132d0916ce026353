"""Tables in Markdown that a benchmark prints row by row."""

from __future__ import annotations


def table(*names: str) -> None:
    """Print the head of a table."""
    print()
    row(*names)
    row(*("---" for _ in names))


def row(*cells: object) -> None:
    """Print a row of a table as soon as it is known."""
    texts = (str(cell).replace("|", "\\|").replace("\n", " ") for cell in cells)
    print("|", " | ".join(texts), "|", flush=True)
