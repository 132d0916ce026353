"""Make docs/card.svg, the terminal of a real `holter demo` as a picture: python scripts/picture.py."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).parents[1]
WIDTH = 100


def terminal_of(command: list[str]) -> str:
    """Run a command in a terminal of its own; return everything it printed, colors included."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "COLUMNS": str(WIDTH), "TERM": "xterm-256color"}
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment, cwd=ROOT):
        os.close(theirs)
        printed = b""
        while True:
            try:
                piece = os.read(ours, 65536)
            except OSError:  # Linux answers so once the other end is closed
                break
            if not piece:
                break
            printed += piece
    os.close(ours)
    return printed.decode().replace("\r\n", "\n")


def main() -> None:
    """Run the demo, draw the picture."""
    with tempfile.TemporaryDirectory() as store:
        demo = [sys.executable, "-m", "holter", "demo", *sys.argv[1:], "--store", store]
        printed = terminal_of(demo).replace(f" --store {store}", "").replace(store, "holter-jobs")
    # The path of this machine's Python says nothing to a reader.
    printed = re.sub(r"\S*/bin/python\S*", "python", printed)
    console = Console(record=True, width=WIDTH + 2, file=open(os.devnull, "w"))  # noqa: SIM115
    console.print(Text.from_ansi(f"$ holter demo\n{printed.strip()}"))
    picture = console.export_svg(title="holter demo")
    # Rich names fonts on other hosts; a picture of ours asks nobody.
    picture = re.sub(r"@font-face \{.*?\}|<!--.*?-->", "", picture, flags=re.DOTALL)
    (ROOT / "docs" / "card.svg").write_text(picture)


if __name__ == "__main__":
    main()
