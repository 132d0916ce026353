"""Coordinates several nodes that record one job: joining, the end of each node, and the end of the job.

There is no coordinator. Each node writes its own `nodes/<node>.json`. The node that sees the end of all nodes
writes the job's end. It follows from the nodes' documents, so two nodes that write it write the same.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from holter.agent.supervision.deaths import is_consequence
from holter.store.job import JobNotFound, find

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from holter.agent.supervision.launch import Launch
    from holter.agent.supervision.outcome import Outcome
    from holter.store.documents import Document
    from holter.store.job import JobFolder

STALE_S = 300.0
"""A job whose nodes are all silent for this long cannot be joined; clocks may differ by less."""
LOST_S = 30.0
"""A node that is silent for this long, by one clock, is lost; agents write every 4 s."""
WAITS_S = {"Completed": 60.0, "Stopped": 45.0, "Failed": 15.0}
"""How long the judging node waits for the others; short after a failure, which schedulers must see soon."""
_POLL_S = 0.5
_BEGINS_S = 5.0
"""Longest time between the creation of a job's folder and of its manifest."""


class CannotJoin(ValueError):  # noqa: N818
    """The job that there is cannot be joined; the text says why."""


@dataclass
class Member:
    """One node of a job that several nodes record."""

    folder: JobFolder
    node: str
    creator: bool
    """Whether it created the job; then it runs the rules and shows the card."""
    _heard: dict[str, tuple[object, float]] = field(default_factory=dict)
    """The last heartbeat of each running node, and when it was seen, monotonic seconds."""

    def end(self, outcome: Outcome) -> None:
        """Write down how the command ended on this node. Raises `OSError`."""
        self.folder.update_node(
            self.node,
            **outcome.ending,
            trained=outcome.trained,
            cost=outcome.cost,
        )

    def close(self, *, lost_s: float = LOST_S, now: Callable[[], float] = time.monotonic) -> list[str]:
        """Write the job's end once all its nodes have ended or are lost; return those that still run."""
        nodes = self.folder.nodes()
        running = [name for name, facts in nodes.items() if facts.get("end") is None]
        lost = [name for name in running if self._silent_s(name, nodes[name], now()) >= lost_s]
        if len(lost) < len(running):
            return [name for name in running if name not in lost]
        self.folder.update(**together(nodes))
        return []

    def wait(self, status: str, on_wait: Callable[[list[str]], None]) -> bool:
        """Wait until the job is over; return whether this node judges it.

        `on_wait` is called once with the nodes that still run, when waiting takes more than a moment.
        """
        begin, told = time.monotonic(), False
        running = self.close()
        while self.creator and running and time.monotonic() - begin < WAITS_S.get(status, 0.0):
            time.sleep(_POLL_S)
            running = self.close()
            if running and not told and time.monotonic() - begin > 2.0:
                told = True
                on_wait(running)
        if not self.creator:
            return not running and not any(
                facts.get("creator") and not facts.get("left") for facts in self.folder.nodes().values()
            )
        return self.leave() if running else True

    def leave(self) -> bool:
        """Leave the judging to the last node; return whether all others have just ended."""
        self.folder.update_node(self.node, left=True)
        return not self.close()

    def _silent_s(self, name: str, facts: Document, now: float) -> float:
        """Return how long a node is silent, by this node's clock."""
        beat = facts.get("heartbeat")
        known = self._heard.get(name)
        if known is None or known[0] != beat:
            known = self._heard[name] = (beat, now)
        return now - known[1]


def join(store_url: str, name: str, launch: Launch, node: str, *, named: bool, now_ns: int) -> Member:
    """Join a job that another node of the same launch created.

    `named` says whether the user chose the node's name; another name gets a number when it is taken.

    Raises:
        CannotJoin: The job belongs to another launch, is over or abandoned, or has a node of this name.
        OSError: The store cannot be read or written.
    """
    try:
        folder = find(store_url, name)
    except JobNotFound as error:
        raise CannotJoin(str(error)) from error
    deadline = time.monotonic() + _BEGINS_S
    while "created" not in (manifest := folder.manifest()) and time.monotonic() < deadline:
        time.sleep(0.1)
    theirs = manifest.get("launch")
    if not isinstance(theirs, dict) or theirs.get("id") != launch.id:
        raise CannotJoin("it belongs to another launch")
    if manifest.get("end") is not None:
        raise CannotJoin(f"it is over ({manifest.get('status')})")
    signs = [facts.get("heartbeat") for facts in folder.nodes().values()]
    newest = max((sign for sign in signs if isinstance(sign, int)), default=manifest.get("created") or 0)
    if now_ns - newest > STALE_S * 1e9:
        raise CannotJoin(f"its nodes are silent for {(now_ns - newest) / 60e9:.0f} min")
    return enter(folder, node, named=named, creator=False, now_ns=now_ns)


def enter(folder: JobFolder, node: str, *, named: bool, creator: bool, now_ns: int) -> Member:
    """Take a node's name in a job, which only one can. Raises `CannotJoin` when it is taken; `OSError`."""
    facts = {"status": "InProgress", "joined": now_ns, "heartbeat": now_ns, "creator": creator}
    for candidate in [node, *(() if named else (f"{node}-{n}" for n in range(2, 1000)))]:
        try:
            folder.write_node(candidate, facts, new=True)
        except FileExistsError:
            continue
        return Member(folder, candidate, creator)
    raise CannotJoin(f"it has a node {node!r} already; name this one with --node")


def together(nodes: Mapping[str, Document]) -> Document:
    """Return a job's end from the ends of its nodes.

    The first failure decides; failures that only follow the loss of another node come last.
    """
    ends = [int(facts["end"]) for facts in nodes.values() if facts.get("end") is not None]
    starts = [int(facts["start"]) for facts in nodes.values() if facts.get("start") is not None]
    bad = [_bad(name, facts) for name, facts in nodes.items() if facts.get("status") != "Completed"]
    worst = min(bad, key=lambda one: one[0])[1] if bad else {"status": "Completed", "exit_code": 0}
    known = {"signal": None, "failure": None, "exit_code": None, **worst}
    begin = {"start": min(starts)} if starts else {}
    return {**known, **begin, "end": max(ends, default=time.time_ns())}


def _bad(name: str, facts: Document) -> tuple[tuple[bool, int], Document]:
    """Return the sort key of a failed node, and the job's entries for its failure."""
    if facts.get("end") is None:
        heard = int(facts.get("heartbeat") or 0)
        evidence = f"node {name} is silent; the machine, its network or its agent died"
        lost = {"kind": "lost", "node": name, "rank": None, "step": None, "phase": None, "evidence": evidence}
        return (False, heard), {"status": "Failed", "failure": lost}
    end = {key: facts.get(key) for key in ("status", "exit_code", "signal")}
    failure = facts.get("failure") or {}
    end["failure"] = {**failure, "node": name} if failure else None
    return (is_consequence(str(failure.get("exception") or "")), int(facts["end"])), end
