"""Print the folders of the package, one line each: python scripts/map.py > docs/reference/map.md."""

from __future__ import annotations

import ast
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "src" / "holter"
HEAD = """# Map of the source

Each folder of `src/holter` with its number of modules and what it holds, in the words of its `__init__.py`.
Written by `python scripts/map.py`; a test compares this page with the code.

| folder | modules | holds |
|---|---:|---|
"""


def folders() -> list[Path]:
    """Return the package's folders that hold Python modules, the package itself first."""
    found = {path.parent for path in PACKAGE.rglob("*.py") if (path.parent / "__init__.py").is_file()}
    return sorted(found)


def modules(folder: Path) -> list[Path]:
    """Return the modules of a folder, without its `__init__.py`."""
    return sorted(path for path in folder.glob("*.py") if path.name != "__init__.py")


def sentence(folder: Path) -> str:
    """Return the first paragraph of a package's docstring, on one line."""
    text = ast.get_docstring(ast.parse((folder / "__init__.py").read_text())) or ""
    return " ".join(text.split("\n\n")[0].split()).replace("|", "\\|")


def page() -> str:
    """Return the map as Markdown."""
    rows = []
    for folder in folders():
        name = folder.relative_to(PACKAGE.parent)
        rows.append(
            f"| {'&emsp;' * (len(name.parts) - 1)}`{name}` | {len(modules(folder))} | {sentence(folder)} |"
        )
    return HEAD + "\n".join(rows) + "\n"


if __name__ == "__main__":
    print(page(), end="")
