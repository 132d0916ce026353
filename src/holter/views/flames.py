"""Builds flame graphs of Python code and of the host, one for each thread or group of threads."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal, NotRequired, TypedDict, cast

import numpy as np

from holter.analysis.host.operator_tree import host
from holter.analysis.host.python_functions import DEEPEST, Flame, flame_of_stacks, functions_of_stacks
from holter.schema.table import Table
from holter.store.parquet.queries import literal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holter.store.trial import Trial
    from holter.views.document.types.values import TableRow

_STEP = re.compile(r"^(\w+)#\d+$")
"""The range of one step, as `ProfilerStep#12`: all steps are one function."""
MOST_EVENTS = 500_000
"""Limit on the events of a trace in one tree."""
LEAST_PCT = 0.05
"""Functions with a smaller share are not drawn; their time counts for the caller."""
MOST_FUNCTIONS = 1000


class FlameTree(TypedDict):
    """A function with its time and that of all callees, ns."""

    name: str
    value: int
    children: NotRequired[list[FlameTree]]


class FlameDocument(TypedDict):
    """The flame graph of one source of stacks."""

    source: Literal["pyinstrument", "loader", "host"]
    """Samples of the training thread, continuous samples of code that builds batches, or operators."""
    name: str
    """The thread, or the workers."""
    flame: FlameTree
    functions: list[TableRow]
    """The functions with the most self time, as in `python_profile`."""
    samples: int | None
    """None if nothing was sampled."""
    left_out: int
    """Number of functions beyond the list."""


@dataclass(frozen=True, slots=True)
class FlameSelection:
    """The part of a job that a flame graph shows; None for all."""

    first_step: int | None = None
    last_step: int | None = None
    """Inclusive."""
    rank: int | None = None
    mode: str | None = None
    phase: str | None = None

    def where(self, *columns: str) -> str:
        """Return the condition as SQL, for a table that has these of the columns rank, mode and phase."""
        terms = [
            f"step {sign} {int(step)}"
            for sign, step in ((">=", self.first_step), ("<=", self.last_step))
            if step is not None
        ]
        for name in columns:
            value = getattr(self, name)
            if value is not None:
                terms.append(f"{name} = {literal(value) if isinstance(value, str) else int(value)}")
        return " AND ".join(terms) or "true"


def flames(trial: Trial, chosen: FlameSelection | None = None) -> Iterator[FlameDocument]:
    """Yield a document for each source of stacks that has any, the most exact first."""
    chosen = chosen or FlameSelection()
    windows = trial.table("python_stacks", where=chosen.where("rank", "mode", "phase"))
    if windows.rows:
        yield _document("pyinstrument", "training thread", windows)
    if chosen.phase in (None, "data_loading"):
        stacks = trial.table("spans", where=f"phase = 'stack' AND {chosen.where('rank', 'mode')}")
        for name, mine in _by_worker(stacks):
            yield _document("loader", name, mine)
    if chosen.mode is None and chosen.phase is None:
        yield from _of_host(trial, chosen)


def _by_worker(stacks: Table) -> Iterator[tuple[str, Table]]:
    if not stacks.rows:
        return
    samples = np.ones(stacks.rows, np.int64)
    rows = Table({"stack": stacks["name"], "samples": samples, "self_time": stacks["duration"]})
    own = stacks["worker"] < 0
    for name, mine in (("workers of the data loader", ~own), ("training thread, while it loads", own)):
        if mine.any():
            yield name, rows.where(mine)


def _document(source: Literal["pyinstrument", "loader"], name: str, rows: Table) -> FlameDocument:
    functions = functions_of_stacks(rows)
    return {
        "source": source,
        "name": name,
        "flame": pruned(flame_of_stacks(rows)),
        "functions": [asdict(one) for one in functions[:MOST_FUNCTIONS]],
        "samples": int(rows["samples"].sum()),
        "left_out": max(len(functions) - MOST_FUNCTIONS, 0),
    }


def _of_host(trial: Trial, chosen: FlameSelection) -> Iterator[FlameDocument]:
    """Yield a document for each thread of which a window or a trace has nested events, the busiest first."""
    columns = ("time", "duration", "rank", "thread", "name", "kind")
    where = chosen.where("rank") + " AND kind IN ('operator', 'python', 'module', 'annotation')"
    tree = host({"operators": trial.table("operators", columns=columns, where=where)})
    keys = np.stack([tree.rank, tree.thread], axis=1)
    threads, of_thread = np.unique(keys, axis=0, return_inverse=True) if len(keys) else (keys, keys)
    roots: list[tuple[tuple[int, int], Flame]] = []
    for at, (rank, thread) in enumerate(threads.tolist()):
        which = np.flatnonzero(of_thread.ravel() == at)[:MOST_EVENTS]
        roots.append(((rank, thread), _grown(tree, which)))
    roots.sort(key=lambda one: -one[1].total_ns)
    for (rank, thread), flame in roots[:8]:
        yield {
            "source": "host",
            "name": f"rank {rank}, thread {thread}",
            "flame": pruned(flame),
            "functions": _functions(flame)[:MOST_FUNCTIONS],
            "samples": None,
            "left_out": 0,
        }


def _grown(tree: Any, which: Any) -> Flame:
    """Build the flame of one thread's events, in which parents come first."""
    root = Flame("all")
    nodes: dict[int, tuple[Flame, int]] = {-1: (root, 0)}
    own = tree.own_ns
    for event, parent in zip(which.tolist(), tree.parent[which].tolist(), strict=True):
        above, depth = nodes.get(parent, (root, 0))
        name = _STEP.sub(r"\1", tree.names[tree.name[event]])
        node = above if depth >= DEEPEST else above.children.setdefault(name, Flame(name))
        node.self_ns += max(int(own[event]), 0)
        nodes[event] = (node, depth + 1)
    return root


def _functions(root: Flame) -> list[TableRow]:
    """Sum a flame by name; a recursive function counts once."""
    found: dict[str, list[int]] = {}

    def visit(node: Flame, above: frozenset[str]) -> int:
        below = above | {node.name}
        total = node.self_ns + sum(visit(child, below) for child in node.children.values())
        one = found.setdefault(node.name, [0, 0])
        one[0] += node.self_ns
        one[1] += total if node.name not in above else 0
        return total

    for child in root.children.values():
        visit(child, frozenset())
    rows = [{"name": name, "self_ns": own, "total_ns": total} for name, (own, total) in found.items()]
    return sorted(rows, key=lambda row: (-row["self_ns"], row["name"]))


def pruned(flame: Flame, least_pct: float = LEAST_PCT) -> FlameTree:
    """Return a flame as a tree without functions whose share is too small."""
    whole = cast("FlameTree", flame.to_json())
    least = whole["value"] * least_pct / 100

    def kept(node: FlameTree) -> FlameTree:
        below = [kept(child) for child in node.get("children", ()) if child["value"] >= least]
        made: FlameTree = {"name": node["name"], "value": node["value"]}
        return {**made, "children": below} if below else made

    return kept(whole)
