"""The result of a check, and the JSON and the Markdown of all results."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Literal

Status = Literal["measured", "failed", "not available"]
Figure = float | int | str | None


class NotAvailableError(Exception):
    """This machine lacks what a check needs; the text says what."""


class WrongError(Exception):
    """What was measured is not as it must be; the text says how."""

    def __init__(self, text: str, figures: dict[str, Figure]) -> None:
        super().__init__(text)
        self.figures = figures


@dataclass
class Result:
    """What came of one check."""

    check: str
    about: str
    status: Status
    why: str = ""
    """Why it failed, or what it lacks."""
    figures: dict[str, Figure] = field(default_factory=dict)
    """Name with unit to value; None is missing."""
    seconds: float = 0.0


def as_json(machine: dict[str, Figure], results: list[Result]) -> str:
    """Return all results as a JSON document."""
    document = {"schema": 1, "machine": machine, "results": [asdict(one) for one in results]}
    return json.dumps(document, indent=1) + "\n"


def as_markdown(machine: dict[str, Figure], results: list[Result]) -> str:
    """Return all results as a page."""
    lines = ["# GPU kit", "", *(f"* {name}: {_text(value)}" for name, value in machine.items()), ""]
    lines += ["| check | result | figures | seconds |", "|---|---|---|---:|"]
    for one in results:
        figures = "; ".join(f"{name} {_text(value)}" for name, value in one.figures.items())
        status = f"{one.status}: {one.why}" if one.why else one.status
        cells = (f"{one.check}: {one.about}", status, figures, f"{one.seconds:.0f}")
        lines.append(f"| {' | '.join(cell.replace('|', '/').replace(chr(10), ' ') for cell in cells)} |")
    return "\n".join(lines) + "\n"


def _text(value: Figure) -> str:
    if value is None:
        return "missing"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
