"""Write the issue to Python's log, and to a file as one JSON document per line."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from pathlib import Path

from holter.actions import Action, ActionFailed, BadAction, Limits, Occasion, Secrets, parameter
from holter.actions._words import document, subject

LOGGER = logging.getLogger("holter.issues")


@dataclass(frozen=True, slots=True, kw_only=True)
class Log(Action):
    """Write the issue to the logger `holter.issues`, and to a file when one is named."""

    description = "says it in Python's log, or appends it to a file"
    limits = Limits(max_per_run=1000)

    level: str = parameter("warning", choices=("debug", "info", "warning", "error", "critical"))
    """The log level."""
    file: str = parameter("")
    """The file to which each issue is appended as one line of JSON."""

    def check(self, secrets: Secrets) -> None:
        """Refuse a file in a folder that does not exist."""
        if self.file and not Path(self.file).absolute().parent.is_dir():
            raise BadAction(
                f"log: file={self.file!r}: there is no folder {Path(self.file).absolute().parent}"
            )

    def act(self, occasion: Occasion, secrets: Secrets) -> str:
        """Log it."""
        LOGGER.log(
            logging.getLevelNamesMapping()[self.level.upper()],
            "%s: %s",
            subject(occasion),
            occasion.issue["summary"],
        )
        if not self.file:
            return "logged"
        try:
            with open(self.file, "a", encoding="utf-8") as file:
                file.write(json.dumps(document(occasion)) + "\n")
        except OSError as error:
            raise ActionFailed(f"{self.file}: {error.strerror}") from None
        return f"appended to {self.file}"
