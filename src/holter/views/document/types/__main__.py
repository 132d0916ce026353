"""Print the JSON schema of a description: `python -m holter.views.document.types`.

Its output is committed as `views/description.schema.json`; a test compares them.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

from holter.views.document.types import Description


def published() -> dict[str, Any]:
    """Return the JSON schema of the document that `holter describe JOB --json` prints."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "description.schema.json",
        "title": "What `holter describe JOB --json` prints",
        **msgspec.json.schema(Description),
    }


def text() -> str:
    """Return the schema as the committed file holds it."""
    return json.dumps(published(), indent=1) + "\n"


if __name__ == "__main__":
    print(text(), end="")
