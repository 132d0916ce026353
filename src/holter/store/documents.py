"""Reads the JSON documents of a job's folder and leaves out invalid entries.

A document comes from a shared store and can contain anything. Each entry is checked when it is read, so its
users can rely on its type. Entries without a type in `document_types` are not checked.
"""

from __future__ import annotations

import json
import re
from typing import Any, get_type_hints

import msgspec

from holter.store.document_types import ControlDocument, EvaluationsDocument, Manifest, NodeDocument
from holter.store.layout import CONTROL, EVALUATIONS, MANIFEST

Document = dict[str, Any]

_KNOWN = {MANIFEST: Manifest, CONTROL: ControlDocument, EVALUATIONS: EvaluationsDocument}
_ENTRIES = {kind: get_type_hints(kind, include_extras=True) for kind in (*_KNOWN.values(), NodeDocument)}
_HALF = re.compile(rb"\\u[dD][89a-fA-F]")
_MOST_SHOWN = 60
_MOST_DEPTH = 100


def parsed(data: bytes) -> Document:
    """Read a document; raises `ValueError` or `RecursionError` without an object, or nested too deep."""
    document = json.loads(data)
    if _HALF.search(data):  # half of a letter of two, as "\ud800", can be neither stored nor sent
        whole = json.dumps(document, ensure_ascii=False).encode("utf-8", "replace")
        document = json.loads(whole)
    if data.count(b"[") + data.count(b"{") > _MOST_DEPTH and _depth(document) > _MOST_DEPTH:
        raise ValueError(f"it is nested more than {_MOST_DEPTH} deep")
    if not isinstance(document, dict):
        raise ValueError("it holds no JSON object")
    return document


def usable(key: str, document: Document) -> tuple[Document, list[str]]:
    """Return a document without its invalid entries, and one sentence about each of them.

    Only the invalid elements of a list are left out. Unknown keys are documents of nodes.
    """
    sound, faults = dict(document), []
    for name, kind in _ENTRIES[_KNOWN.get(key, NodeDocument)].items():
        if name not in document or (why := _fault(value := document[name], kind)) is None:
            continue
        good = [one for one in value if _fault([one], kind) is None] if isinstance(value, list) else None
        if good:
            sound[name] = good
        else:
            del sound[name]
        text = repr(value)
        shown = text if len(text) <= _MOST_SHOWN else f"{text[: _MOST_SHOWN - 3]}..."
        faults.append(f"has {name} {shown}, which is left out: {why}")
    start, end = sound.get("start"), sound.get("end")
    if start is not None and end is not None and end < start:
        del sound["end"]
        faults.append(f"has end {end}, which is left out: it is before start {start}")
    return sound, faults


def _fault(value: Any, kind: Any) -> str | None:
    try:
        msgspec.convert(value, kind)
    except (msgspec.ValidationError, OverflowError, RecursionError) as error:
        return str(error)
    return None


def _depth(document: Any) -> int:
    """Return how deep a document is nested, without recursion."""
    depth, level = 0, [document]
    while level:
        depth += 1
        level = [
            one
            for outer in level
            if isinstance(outer, dict | list)
            for one in (outer.values() if isinstance(outer, dict) else outer)
        ]
    return depth
