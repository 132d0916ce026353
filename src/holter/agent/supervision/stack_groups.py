"""Groups ranks that hang by where they stand: a rank that stands elsewhere is the one to look at."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from holter.agent.supervision.stacks import own_frame

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from holter.agent.supervision.stacks import StackFrame

_MOST_NAMED = 4
"""Of a larger group, only the number of ranks is said."""


class StackGroup(NamedTuple):
    """Ranks that stand at the same place."""

    ranks: list[int]
    place: str
    """As in `in all_reduce (…/distributed_c10d.py:2000), called from step (train.py:42)`."""

    @property
    def who(self) -> str:
        """Name the ranks."""
        if len(self.ranks) == 1:
            return f"rank {self.ranks[0]}"
        if len(self.ranks) > _MOST_NAMED:
            return f"{len(self.ranks)} ranks"
        return f"ranks {', '.join(map(str, self.ranks))}"


def stack_groups(stacks: Mapping[int, Sequence[StackFrame]], stopped: Iterable[int] = ()) -> list[StackGroup]:
    """Return the groups: stopped ranks, then the smallest first, and of equal ones that with the lowest rank.

    Ranks stand at the same place if the innermost function and the line of the user's own code are the same.

    Args:
        stacks: The stack of each rank's loop, innermost first; a rank without a stack is left out.
        stopped: Ranks whose processes a signal has stopped; they cannot write a stack.
    """
    ranks: dict[tuple[str, str], list[int]] = defaultdict(list)
    places: dict[tuple[str, str], str] = {}
    for rank, stack in sorted(stacks.items()):
        if not stack:
            continue
        own = own_frame(list(stack))
        key = stack[0].function, str(own)
        caller = f", called from {own}" if own and own != stack[0] else ""
        places.setdefault(key, f"in {stack[0]}{caller}")
        ranks[key].append(rank)
    found = [StackGroup(ranks[key], place) for key, place in places.items()]
    found.sort(key=lambda group: (len(group.ranks), group.ranks))
    still = sorted(stopped)
    return [*([StackGroup(still, "stopped by a signal")] if still else []), *found]


def odd_ranks(groups: Sequence[StackGroup]) -> list[int]:
    """Return the ranks of the smallest group; none if there is one group, or two are equally small."""
    if len(groups) < 2 or len(groups[0].ranks) == len(groups[1].ranks):
        return []
    return groups[0].ranks


def sentence(groups: Sequence[StackGroup]) -> str:
    """Say where the groups stand, the odd one first; at most three of them."""
    parts = [f"{one.who} {'is' if len(one.ranks) == 1 else 'are'} {one.place}" for one in groups[:3]]
    more = f"; {len(groups) - 3} more groups" if len(groups) > 3 else ""
    return "; ".join(parts) + more
