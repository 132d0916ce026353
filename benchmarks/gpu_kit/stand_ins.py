"""What a rehearsal has in place of a GPU: a driver library that answers from a file, and an `nvidia-smi`."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from gpu_kit.results import NotAvailableError

ROOT = Path(__file__).parents[2]
LIBRARY = ROOT / "tests/agent/collectors/nvml.c"
ANSWERS = """\
count 0 1
name 0 stand-in GPU
uuid 0 GPU-stand-in-1
utilization 0 93 41
memory 0 85899345920 42949672960
temperature 0 64
power 0 612340
"""
SMI = """#!/bin/sh
echo "93, 40960, 612.34, 64"
"""
"""What it prints for the same state as `ANSWERS`, in the order that the kit asks for."""


def stand_ins(folder: Path) -> dict[str, str]:
    """Make both in a folder and return the variables that make a process find them.

    Raises:
        NotAvailableError: There is no C compiler.
    """
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise NotAvailableError("no C compiler for the stand-in of the driver's library")
    folder.mkdir(parents=True, exist_ok=True)
    library, smi, answers = folder / "libnvidia-ml.so.1", folder / "nvidia-smi", folder / "answers"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", str(library), str(LIBRARY)], check=True, timeout=60)
    smi.write_text(SMI)
    smi.chmod(0o755)
    answers.write_text(ANSWERS)
    return {
        "FAKE_NVML": str(answers),
        "LD_LIBRARY_PATH": str(folder),
        "PATH": f"{folder}{os.pathsep}{os.environ.get('PATH', '')}",
    }
