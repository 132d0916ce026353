"""Encodes documents as JSON."""

from __future__ import annotations

from typing import Any

import msgspec


def encoded(document: Any) -> bytes:
    """Return a document as the bytes of its JSON; NaN and infinity become null."""
    return msgspec.json.encode(document, enc_hook=_plain)


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        return str(value)  # markup
    if hasattr(value, "item"):
        return value.item()
    raise TypeError(f"{type(value).__name__} has no place in JSON")
