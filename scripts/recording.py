"""Record holter in a terminal as an animated picture: python scripts/recording.py > docs/session.svg.

A real training runs in a terminal of its own. `svg-term`, which npx brings, draws what it printed and when.
"""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
COLUMNS, ROWS = 88, 26
MARGIN = 4
"""Columns that stay empty, because fonts differ in width."""
PROMPT = "\x1b[32m$\x1b[0m "
TYPED = "holter run -- python train.py --epochs 4"
KEY_S = 0.06
"""Between two keys."""
LONGEST_S = 0.25
"""A pause without output is cut to this."""
LAST_S = 12.0
"""How long the card stays before the recording begins anew."""


def main() -> None:
    """Print the picture."""
    events = [(0.0, PROMPT)]
    for key in TYPED:
        events.append((events[-1][0] + KEY_S, key))
    begin = events[-1][0] + 0.4
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "train.py").write_text((ROOT / "examples/image_training/train.py").read_text())
        # The first run makes the photos; the picture is about the training.
        once = [sys.executable, "train.py", "--epochs", "1"]
        subprocess.run(once, cwd=folder, check=True, stdout=sys.stderr)
        events += [(begin, "\r\n"), *((begin + at, text) for at, text in printed(folder))]
        events.append((events[-1][0] + LAST_S, ""))
        lines = [json.dumps({"version": 2, "width": COLUMNS, "height": ROWS})]
        lines += [json.dumps([round(at, 3), "o", text]) for at, text in events]
        cast = Path(folder) / "session.cast"
        cast.write_text("\n".join(lines) + "\n")
        command = ["npx", "--yes", "svg-term-cli@2.1.1", "--in", str(cast), "--window", "--no-cursor"]
        print(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout, end="")


def printed(folder: str) -> list[tuple[float, str]]:
    """Run the training under holter in a terminal; return what it printed, and when."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "TERM": "xterm-256color"}
    environment["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), environment["PATH"]])
    words = [sys.executable, "-m", "holter", "run", "--job", "first", "--", "python", *TYPED.split()[4:]]
    process, ours = pty.fork()
    if process == 0:
        os.chdir(folder)
        os.execvpe(words[0], words, environment)
    fcntl.ioctl(ours, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS - MARGIN, 0, 0))
    events, at, last = [], 0.0, time.monotonic()
    while True:
        try:
            piece = os.read(ours, 65536)
        except OSError:  # Linux answers so once the other end is closed
            break
        now = time.monotonic()
        at, last = at + min(now - last, LONGEST_S), now
        events.append((at, piece.decode(errors="replace")))
    os.close(ours)
    if os.waitpid(process, 0)[1]:
        raise SystemExit("".join(text for _, text in events))
    # Text that is dim is gray in all terminals that the picture imitates.
    return [(at, re.sub(r"\x1b\[2m", "\x1b[90m", text)) for at, text in events]


if __name__ == "__main__":
    main()
