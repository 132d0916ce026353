"""Make pictures of the terminal after real trainings: python scripts/picture.py [NAME…].

`demo` is docs/card.svg, made by `holter demo`. The others are docs/pictures/NAME.svg for the page
docs/how-to/record-NAME.md, made by trainings of the tests; those of frameworks in environments of their own
need what `scripts/frameworks` makes.
"""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).parents[1]
WIDTH = 100


@dataclass(frozen=True)
class Training:
    """A script of the tests, its argument, and the environment of its framework; empty: the project's own."""

    script: str
    case: str
    environment: str = ""

    def command(self) -> list[str]:
        """Return the command that trains."""
        sys.path[:0] = [str(ROOT), str(ROOT / "src")]
        from tests.frameworks.environments import python_of

        python = python_of(self.environment) if self.environment else sys.executable
        return [str(python), str(ROOT / "tests" / self.script), self.case]


TRAININGS = {
    "any-program": Training("jobs/trainings/no_framework.py", "30"),
    "boosted-trees": Training("jobs/trainings/boosting.py", "slow_callback"),
    "deepspeed": Training("frameworks/trainings/deepspeed_loop.py", "data", "deepspeed"),
    "jax": Training("frameworks/trainings/jax_loop.py", "data_bound", "jax"),
    "keras": Training("frameworks/trainings/keras_on_torch.py", "data_bound", "keras"),
    "large-models": Training("frameworks/trainings/torchtitan_loop.py", "data", "torchtitan"),
    "lightning": Training("frameworks/trainings/lightning_loop.py", "callback", "lightning"),
    "ray": Training("frameworks/trainings/ray_train.py", "data", "ray"),
    "scikit-learn": Training("jobs/trainings/estimators.py", "slow_stream"),
    "tensorflow": Training("frameworks/trainings/tensorflow_loop.py", "data_bound", "tensorflow"),
    "transformers": Training("frameworks/trainings/transformers_loop.py", "callback", "transformers"),
}


def terminal_of(command: list[str], folder: str) -> str:
    """Run a command in a terminal of its own; return everything it printed, colors included."""
    ours, theirs = pty.openpty()
    path = os.pathsep.join(filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "PYTHONPATH": path, "COLUMNS": str(WIDTH), "TERM": "xterm-256color"}
    with subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment, cwd=folder
    ) as process:
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
    text = printed.decode().replace("\r\n", "\n")
    if process.returncode:
        raise SystemExit(f"{text}\n{command} ended with {process.returncode}")
    return text


def printed_by(name: str) -> tuple[str, str]:
    """Run what a picture shows; return the command as a reader would type it, and what it printed."""
    with tempfile.TemporaryDirectory() as folder:
        store = f"{folder}/holter-jobs"
        if name == "demo":
            typed, words = "holter demo", ["demo", "--store", store]
        else:
            python, script, case = TRAININGS[name].command()
            typed = f"holter run -- python {Path(script).name} {case}"
            words = ["run", "--store", store, "--", python, script, case]
        printed = terminal_of([sys.executable, "-m", "holter", *words], folder)
    printed = printed.replace(f" --store {store}", "").replace(f"{folder}/", "")
    if name != "demo":  # what the training itself prints is not shown
        printed = printed[printed.rfind("\n", 0, printed.index("── holter")) + 1 :]
    # The path of this machine's Python says nothing to a reader.
    return typed, re.sub(r"\S*/bin/python\S*", "python", printed)


def drawn(typed: str, printed: str) -> str:
    """Return a terminal as SVG."""
    with open(os.devnull, "w") as nowhere:
        console = Console(record=True, width=WIDTH + 2, file=nowhere)
        console.print(Text.from_ansi(f"$ {typed}\n{printed.strip()}"))
    picture = console.export_svg(title=typed)
    # Rich names fonts on other hosts; a picture of ours asks nobody.
    return re.sub(r"@font-face \{.*?\}|<!--.*?-->", "", picture, flags=re.DOTALL)


def main() -> None:
    """Draw the pictures that the arguments name, or all."""
    for name in sys.argv[1:] or ["demo", *TRAININGS]:
        if name != "demo" and name not in TRAININGS:
            raise SystemExit(f"no picture {name}; known are demo, {', '.join(TRAININGS)}")
        picture = drawn(*printed_by(name))
        (ROOT / "docs/pictures").mkdir(exist_ok=True)
        path = "docs/card.svg" if name == "demo" else f"docs/pictures/{name}.svg"
        (ROOT / path).write_text(picture)
        print(path)


if __name__ == "__main__":
    main()
