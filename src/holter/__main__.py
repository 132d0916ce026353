"""`python -m holter` is the command `holter`."""

import os
import sys

if sys.path[:1] == [os.getcwd()] and not sys.flags.safe_path:
    # Files in the working folder must not be imported as modules or plug-ins of holter.
    del sys.path[0]

from holter.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
