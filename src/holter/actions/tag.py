"""Put a tag on the job."""

from __future__ import annotations

import re
from dataclasses import dataclass

from holter.actions import Action, BadAction, Limits, Occasion, Secrets, parameter, written

KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,127}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tag(Action):
    """Set an entry of `tags` in the job's manifest."""

    description = "puts a key and a value on the job's record"
    also_called = ("annotate",)
    limits = Limits(max_per_run=100)

    key: str = parameter("issue")
    """The key of the tag."""
    value: str = parameter("")
    """The value of the tag; by default the rule's name."""

    def __post_init__(self) -> None:
        Action.__post_init__(self)
        if not KEY.fullmatch(self.key):
            raise BadAction(f"tag: key={self.key!r} is not valid; it takes letters, digits and '._/-'")

    def act(self, occasion: Occasion, secrets: Secrets) -> str:
        """Write the tag."""
        value = self.value or occasion.rule
        with written("the record"):
            occasion.folder.update(tags={**(occasion.folder.manifest().get("tags") or {}), self.key: value})
        return f"tagged {self.key}={value}"
