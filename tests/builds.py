"""holter compiled once more, elsewhere: under another Python, or with more checks than a user's build has."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
STRICT = "-Wall -Wextra -Werror"
"""Only here: a warning that a newer compiler brings must not break an installation."""
UNDEFINED = "-g -fsanitize=undefined -fno-sanitize-recover=all"

_BUILD = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import hatch_build
print(*hatch_build.compiled(Path(sys.argv[2]))[1], sep="\\n")
"""


def build(to: Path, python: str = sys.executable, flags: str = "") -> tuple[Path, str]:
    """Copy the package and compile its C; return the folder to import it from, and what was not compiled."""
    ignored = shutil.ignore_patterns("*.so", "__pycache__", "vendor")
    shutil.copytree(ROOT / "src", to / "src", ignore=ignored)
    env = {**os.environ, "CC": f"{os.environ.get('CC', 'cc')} {flags}"}
    done = subprocess.run(
        [python, "-c", _BUILD, str(ROOT), str(to)],
        env=env,
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    return to / "src", done.stdout.strip()
