"""Run the sandbox process: `python -m holter.rules.sandbox HARD_S START_S MEMORY_BYTES`."""

from __future__ import annotations

import os
import sys

from holter.rules.sandbox.executor import serve

if __name__ == "__main__":
    serve(float(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]))
    os._exit(0)  # threads that a rule has left must not keep the process alive
