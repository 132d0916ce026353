"""Secrets: read from the environment or a file that it names, and hidden in all texts."""

from __future__ import annotations

import base64
import os
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

from holter.actions._grammar import BadAction
from holter.parameters import suggestion

if TYPE_CHECKING:
    from collections.abc import Mapping

HIDDEN = "***"
_SHORTEST = 4
"""Shorter pieces of a secret are not hidden: hiding them would make texts unreadable."""
_PIECE = 8


class Secrets:
    """The environment for actions. `hide` hides every secret that was read."""

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        self._environment = os.environ if environment is None else environment
        self._known: set[str] = set()

    def setting(self, name: str, default: str = "") -> str:
        """Return a public variable, such as a host name."""
        return self._environment.get(name, "").strip() or default

    def get(self, name: str) -> str | None:
        """Return the secret in variable `name`, or in the file that `name`_FILE names, if any.

        Raises:
            BadAction: The file cannot be read.
        """
        value = self._environment.get(name)
        path = self._environment.get(f"{name}_FILE")
        if not value and path:
            try:
                with open(path, encoding="utf-8") as file:
                    value = file.read()
            except (OSError, UnicodeDecodeError) as error:
                why = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
                raise BadAction(f"{name}_FILE: {path} cannot be read: {why}") from None
        value = (value or "").strip()
        if not value:
            return None
        self.keep(value)
        return value

    def need(self, name: str, who: str) -> str:
        """Return the secret in variable `name`; raises `BadAction` when it is not set."""
        found = self.get(name)
        if found is None:
            others = [one for one in self._environment if one != name]
            hint = suggestion(name, others, " (did you mean {}?)")
            raise BadAction(
                f"{who}: {name} is not set{hint}; set it in the environment, or {name}_FILE to a file with it"
            )
        return found

    def hide(self, text: str) -> str:
        """Return a text with all secrets hidden."""
        for known in sorted(self._known, key=len, reverse=True):
            text = text.replace(known, HIDDEN)
        return text

    def keep(self, value: str) -> None:
        """Hide a value from now on, also encoded and as parts of a URL."""
        forms = {value, quote(value, safe=""), repr(value)[1:-1]}
        forms |= {base64.b64encode(value.encode()).decode().rstrip("=")}
        if "://" in value:
            url = urlsplit(value)
            pieces = [*url.path.split("/"), *(part.rpartition("=")[2] for part in url.query.split("&"))]
            forms |= {url.path, url.query, *(one for one in pieces if len(one) >= _PIECE)}
            forms |= {url.username or "", url.password or ""}
        self._known |= {form for form in forms if len(form) >= _SHORTEST}
