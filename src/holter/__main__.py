"""`python -m holter` is the command `holter`."""

from holter.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
