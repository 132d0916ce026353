"""`python -m holter` is the command `holter`."""

import os
import sys

if sys.path[:1] == [os.getcwd()] and not sys.flags.safe_path:
    # What lies in the folder in which somebody looks at jobs is none of holter's modules or plug-ins.
    del sys.path[0]

from holter.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
