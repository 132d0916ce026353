"""`--python-hz N`: how often the Python stack of a job is sampled from outside."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holter.cli import options
from holter.cli.options import Refusal

if TYPE_CHECKING:
    import argparse


def add(parser: argparse.ArgumentParser) -> None:
    """Add `--python-hz`."""
    parser.add_argument(
        "--python-hz",
        metavar="N",
        help="read the Python stack N times a second for as long as CMD runs, from outside, by py-spy; "
        "at most 20; 0, as without this option, is never",
    )


def variables(given: str | None) -> dict[str, str]:
    """Read `--python-hz` into the variable for it; says why nothing can be sampled. Raises `Refusal`."""
    if given is None:
        return {}
    from holter.agent.python_samples import MAX_HZ, VARIABLE, missing, rate

    try:
        asked = rate({VARIABLE: given})
    except ValueError:
        raise Refusal(
            f"--python-hz {given} is out of range; valid: 0 (never) to {MAX_HZ:g} a second"
        ) from None
    if asked and (why := missing()):
        options.warn(f"--python-hz {given}: {why}; the training runs without")
    return {VARIABLE: given}
