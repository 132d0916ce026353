"""Counts the saved tensors of a job, their collections and steps, for one line of its description."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holter.analysis.verdict.evidence import counted
from holter.store.raw_tensors import RAW, parse_raw
from holter.store.tensors_json import read_told
from holter.tensors.selection import is_member

if TYPE_CHECKING:
    from holter.store.trial import Trial
    from holter.views.document.types.training import SavedTensorSummary

_ROWS = "FROM (SELECT name, role, step FROM tensors UNION ALL SELECT name, '', step FROM tensor_values)"


def saved_tensors(trial: Trial) -> SavedTensorSummary | None:
    """Count saved tensors without opening whole tensors; None if the job saved no tensor."""
    keys = (parse_raw(entry.key) for entry in trial.folder.place.files(RAW))
    whole = {key.step for key in keys if key is not None}
    steps, roles = set(whole), dict[str, set[str]]()
    if trial.rows("tensors") or trial.rows("tensor_values"):
        steps |= set(trial.sql(f"SELECT DISTINCT step {_ROWS}")["step"].tolist())
        for row in trial.sql(f"SELECT DISTINCT name, role {_ROWS}").to_rows():
            roles.setdefault(str(row["name"]), set()).update([str(row["role"])] if row["role"] else [])
    if not steps:
        return None
    collections = [
        name
        for name, one in read_told(trial.folder).collections.items()
        if name != "all"
        and ((one.raw and whole) or any(is_member(one, tensor, mine) for tensor, mine in roles.items()))
    ]
    return {
        "count": len(roles),
        "collections": collections,
        "steps": len(steps),
        "first_step": int(min(steps)),
        "last_step": int(max(steps)),
        "whole_steps": len(whole),
    }


def saved_text(saved: SavedTensorSummary) -> str:
    """Write the counts as a sentence: `4 tensors (gradients) at 6 steps, 0 to 50; whole ones at 3 steps`."""
    said = counted(saved["count"], "tensor") if saved["count"] else "whole tensors"
    named = f" ({', '.join(saved['collections'])})" if saved["collections"] else ""
    first, last = saved["first_step"], saved["last_step"]
    when = (
        f" in step {first}" if first == last else f" at {counted(saved['steps'], 'step')}, {first} to {last}"
    )
    whole = (
        f"; whole ones at {counted(saved['whole_steps'], 'step')}"
        if saved["count"] and saved["whole_steps"]
        else ""
    )
    return f"{said}{named}{when}{whole}"
