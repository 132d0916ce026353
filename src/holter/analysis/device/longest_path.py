"""Finds the longest path through a graph whose edges take time."""

from __future__ import annotations

from collections import defaultdict
from operator import itemgetter
from typing import NamedTuple


class Edge(NamedTuple):
    """An edge from one node to the next, with its kind and the event that takes its time."""

    begin: int
    weight: int
    part: str
    name: str


class Graph:
    """Nodes are numbers: twice the event's for its begin, one more for its end."""

    def __init__(self) -> None:
        self.into: defaultdict[int, dict[int, Edge]] = defaultdict(dict)

    def add(self, begin: int, end: int, weight: int, part: str = "", name: str = "") -> None:
        """Add an edge; of two between the same nodes the last counts."""
        self.into[end][begin] = Edge(begin, max(weight, 0), part, name)

    def longest(self) -> list[Edge]:
        """Return the edges of the longest way, in order; raises `ValueError` for a graph with a circle."""
        best: dict[int, tuple[int, Edge | None]] = {}
        entered: set[int] = set()
        for goal in list(self.into):
            stack = [goal]
            while stack:
                node = stack[-1]
                before = list(self.into[node].values()) if node in self.into else []
                waiting = [edge.begin for edge in before if edge.begin not in best]
                if node in best:
                    stack.pop()
                elif not waiting:
                    reached = [(best[edge.begin][0] + edge.weight, edge) for edge in before]
                    best[node] = max(reached, key=itemgetter(0)) if reached else (0, None)
                    stack.pop()
                elif node in entered:
                    raise ValueError("the events of the trace lead back to themselves")
                else:
                    entered.add(node)
                    stack.extend(waiting)
        if not best:
            return []
        node = max(best, key=lambda one: best[one][0])
        path: list[Edge] = []
        while (edge := best[node][1]) is not None:
            path.append(edge)
            node = edge.begin
        return path[::-1]
