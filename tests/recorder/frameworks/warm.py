"""Scripts in processes that have torch already, forked from one that has imported it.

Of a training of a few steps, nearly all is the import of torch. Here one process imports it, unrecorded, and
each script runs in a fork of it: there the bootstrap runs as Python's start would run it, and the recorder
attaches to a torch that is imported already, as it does in a notebook. What has to see a whole start is not
run here.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import types
from pathlib import Path
from typing import Any


class Warm:
    """A process with torch in it, of which each script gets a copy."""

    def __init__(self) -> None:
        bare = {name: value for name, value in os.environ.items() if not name.startswith("HOLTER_")}
        self.process = subprocess.Popen(
            [sys.executable, __file__],
            # Before the import: torch puts filters of its own in front.
            env={**bare, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "default"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, words: list[str], *, folder: Path, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
        """Run a script with its arguments in a folder; returns when it has ended."""
        out, err = folder / "stdout", folder / "stderr"
        order = {"words": words, "folder": str(folder), "env": env, "out": str(out), "err": str(err)}
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()
        code = int(self.process.stdout.readline())
        return subprocess.CompletedProcess(words, code, out.read_text(), err.read_text())

    def close(self) -> None:
        """End it."""
        self.process.communicate(timeout=60)


def serve() -> dict[str, Any] | None:
    """Fork for each order that comes; returns the order in the copy, and None when no more come."""
    # Not through sys.stdin: a copy would read on where this process has read ahead.
    orders, answers = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    for line in orders:
        pid = os.fork()
        if not pid:
            os.close(orders.fileno())
            os.close(answers.fileno())
            order: dict[str, Any] = json.loads(line)
            return order
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), file=answers, flush=True)
    return None


def become(order: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Turn this copy into what Python's start makes of a script; returns its code and its namespace."""
    os.environ.clear()
    os.environ.update(order["env"])
    os.chdir(order["folder"])
    for number, path in ((1, order["out"]), (2, order["err"])):
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(file, number)
        os.close(file)
    script = order["words"][0]
    sys.argv[:] = order["words"]
    sys.path[:1] = [os.path.dirname(script), *order["env"]["PYTHONPATH"].split(os.pathsep)]
    sys.modules.pop("sitecustomize", None)
    __import__("sitecustomize")
    main = types.ModuleType("__main__")
    main.__file__ = script
    sys.modules["__main__"] = main
    return compile(Path(script).read_text(), script, "exec"), vars(main)


if __name__ == "__main__":
    import torch

    # The first optimizer imports the compiler's modules.
    torch.optim.SGD([torch.zeros(1, requires_grad=True)])
    if wanted := serve():
        exec(*become(wanted))
