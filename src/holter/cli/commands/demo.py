"""`holter demo [NAME]`: record and diagnose a built-in training."""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
from pathlib import Path

from holter.cli import options, output
from holter.cli.options import Refusal
from holter.cli.run.execution import execute
from holter.cli.run.plan import plan

ABOUT = (
    "Record a built-in training and print its verdict, to see holter before you use it on your own code. "
    "Needs torch, no GPU."
)
EXAMPLES = """  holter demo
  holter demo healthy
  holter demo --list"""

FOLDER = Path(__file__).parents[1] / "demos"
DEFAULT = "slow_dataloader"


def main(words: list[str]) -> int:
    """Run `holter demo`."""
    parser = options.Parser("demo", ABOUT, EXAMPLES, "--store")
    parser.add_argument(
        "name", metavar="NAME", nargs="?", default=DEFAULT, help=f"the demo; default: {DEFAULT}"
    )
    parser.add_argument("--list", action="store_true", help="list the demos and the problem of each")
    parser.add_argument(
        "--seconds",
        type=options.within(float, 1, 3600, "seconds"),
        default=25.0,
        metavar="S",
        help="how long to train; default: 25",
    )
    parser.add_argument("--python", metavar="PATH", help="a Python with torch; default: the first one found")
    given = parser.read(words)
    listed = demos()
    if given.list:
        width = max(map(len, listed))
        print("\n".join(f"{name:<{width}}  {about}" for name, about in listed.items()))
        return 0
    options.check_choice("demo", given.name, listed)
    script = FOLDER / f"{given.name}.py"
    chosen = ["--store", given.store] if given.store else []
    command = [given.python or _python(), str(script), "--seconds", f"{given.seconds:g}"]
    checked = plan([*chosen, "--", *command])
    output.warn(f"demo {given.name}: {listed[given.name]}")
    code = execute(checked)
    output.warn("now record your own training: holter run -- python train.py")
    return code


def demos() -> dict[str, str]:
    """Return the demos, each with its first sentence."""
    found = {}
    for path in sorted(FOLDER.glob("[a-z]*.py"), key=lambda path: path.stem != DEFAULT):
        about = ast.get_docstring(ast.parse(path.read_text())) or ""
        found[path.stem] = about.splitlines()[0]
    return found


def _python() -> str:
    """Return the first Python that has torch: the one that runs holter, then those on PATH."""
    tried = dict.fromkeys(filter(None, (sys.executable, shutil.which("python"), shutil.which("python3"))))
    program = "import importlib.util, sys; sys.exit(importlib.util.find_spec('torch') is None)"
    for python in tried:
        if subprocess.run([python, "-c", program], capture_output=True, check=False).returncode == 0:
            return python
    raise Refusal(
        f"the demo needs torch, which {' and '.join(tried)} cannot import; "
        "install it (pip install torch) or name a Python that has it: holter demo --python PATH",
    )
