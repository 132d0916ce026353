"""Joins the parts of sharded tensors, independent of where windows are cut and which rank comes last."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from holter.analysis.tensors.parts import BASIS, joined
from holter.rules.engine.complete_steps import LAG
from holter.rules.engine.table_json import State, from_json, to_json
from holter.schema.table import Table

if TYPE_CHECKING:
    from collections.abc import Iterable


def join_parts(new: Table, state: State, columns: Iterable[str]) -> Table:
    """Return new rows with parts joined, whose rank is then -1; incomplete parts wait in the state.

    Args:
        new: New rows of table `tensors`.
        state: The rule's state; `parts` holds the waiting rows.
        columns: The columns to return.
    """
    divided, waiting = new["parts"] > 1, state.get("parts")
    if not waiting and not divided.any():
        return new
    new = Table({name: new[name] for name in dict.fromkeys((*columns, "part", "parts", *BASIS))})
    parts = new.where(divided)
    parts = Table.concat([from_json(waiting, parts), parts])
    found, lacking = joined(parts)
    # Ranks train in step: missing parts of an earlier step will never come.
    state["parts"] = to_json(lacking.where(lacking["step"] + LAG > parts["step"].max(initial=0)))
    return Table.concat([new.where(~divided), found])


def of_rank_zero(table: Table) -> Any:
    """Return which rows rank 0 or all ranks together recorded; of sharded tensors, all parts."""
    mine = np.isin(table["rank"], (-1, 0))
    return mine | (table["parts"] > 1) if "parts" in table else mine
