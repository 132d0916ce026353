"""Writes a stack as the text of a sample: its frames from the loop inwards, then the call that runs."""

from __future__ import annotations

import ast
import dis
import linecache
import re
import sys
from inspect import CO_GENERATOR
from itertools import islice
from opcode import opmap
from typing import TYPE_CHECKING, NamedTuple

from holter.recorder.patches import PASSED_OVER
from holter.recorder.sampling.frames import frame_text, is_library
from holter.recorder.sampling.producers import is_queue

if TYPE_CHECKING:
    from types import CodeType

    from holter.recorder.sampling.producers import Producer, Seen

MAX_FRAMES = 6
_FOR_ITER = opmap["FOR_ITER"]
_DELEGATES = {opmap[name] for name in ("SEND", "YIELD_FROM") if name in opmap}
_CALL = re.compile(r"[A-Za-z_][\w.]*")


class LoopCode(NamedTuple):
    """Code of the loop; kept alive, so that no other code gets its id."""

    code: CodeType
    calls: frozenset[int]
    """Offsets of the calls that lead to the end of a step."""

    def iterates_at(self, offset: int) -> bool:
        """Return whether the `for` at an offset encloses one of these calls: the training's own loop."""
        for instruction in dis.get_instructions(self.code):
            if instruction.offset == offset and instruction.opname == "FOR_ITER":
                return any(offset < call < instruction.argval for call in self.calls)
        return False


def stack_text(frames: list[Seen], loop: dict[int, LoopCode]) -> str:
    """Return the frames of a stack, the loop's first, then what the user's innermost frame calls.

    `train (a.py:9);stream (a.py:4) [generator] > time.sleep`; below the user's code the innermost frame of a
    library follows, or that of a queue: `train (a.py:9) > batches.get > Queue.get (queue.py:171)`.
    """
    last = max((at for at, each in enumerate(frames) if not is_library(each.f_code)), default=0)
    iterators = _iterators(frames, loop)
    shown = [at for at in range(len(frames)) if at <= max(last, iterators)]
    # Both ends stay; of the middle, frames of libraries go first.
    middle = sorted(shown[1:-1], key=lambda at: (at != iterators, is_library(frames[at].f_code), -at))
    shown = [*shown[:1], *sorted(middle[: MAX_FRAMES - 2]), *shown[1:][-1:]]
    marked = " [generator]" if frames[iterators].f_code.co_flags & CO_GENERATOR else " [iterator]"
    text = ";".join(_frame(frames[at]) + (marked if 0 < at == iterators else "") for at in shown)
    called = called_in(frames[shown[-1]])
    text += f" > {called}" if called else ""
    below = frames[shown[-1] + 1 :]
    waits_at = next((each for each in below if is_queue(each.f_code)), below[-1] if below else None)
    return text + (f" > {_frame(waits_at)}" if waits_at is not None else "")


def waited_for(other: Producer) -> str:
    """Return the thread that the training waits for: ` < thread loader;fill (a.py:5);decode (a.py:7)`.

    One of several threads that may be the one follows `&` instead.
    """
    name = other.name.replace(";", ",").replace("<", "(").replace(">", ")")
    return (" < " if other.only else " & ") + ";".join([name, *map(_frame, other.frames)])


def _iterators(frames: list[Seen], loop: dict[int, LoopCode]) -> int:
    """Return the place of the innermost iterator that the loop takes items from; 0 for none.

    It is what runs while a `for`, a `yield from` or `next` waits for an item: a generator, a `__next__`, a
    `__getitem__`, or the function of a `map`.
    """
    if id(frames[0].f_code) not in loop:
        return 0
    found = 0
    for at in range(1, len(frames)):
        caller = frames[at - 1]
        instruction = caller.f_code.co_code[caller.f_lasti]
        if instruction == _FOR_ITER:
            if at == 1 and not loop[id(caller.f_code)].iterates_at(caller.f_lasti):
                break
        elif not (instruction in _DELEGATES and found) and called_in(caller) != "next":
            break
        found = at
    return found


def called_in(frame: Seen) -> str:
    """Return the name of the call that runs in a frame, as in its source; empty where it is unknown."""
    if sys.version_info < (3, 11):
        return ""
    line, end, first, last = next(
        islice(frame.f_code.co_positions(), frame.f_lasti // 2, None), (None, None, None, None)
    )
    if line is None or first is None or last is None:
        return ""
    source = linecache.getline(frame.f_code.co_filename.removesuffix(PASSED_OVER), line, frame.f_globals)
    text = source.encode()[first : last if line == end else None].decode(errors="replace")
    try:
        called: ast.expr | None = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError):  # a call of several lines: its beginning
        match = _CALL.match(text)
        return match[0] if match and text[match.end() :].startswith("(") else ""
    # Operators and subscripts run in the code of the frame itself.
    return _name_of(called.func) if isinstance(called, ast.Call) else ""


def _name_of(called: ast.expr) -> str:
    """Return the name of what is called, without arguments: `pool.submit().result`, `peers[].recv`."""
    match called:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=owner, attr=name):
            return f"{_name_of(owner) or '()'}.{name}"
        case ast.Call(func=function):
            return f"{_name_of(function)}()"
        case ast.Subscript(value=owner):
            return f"{_name_of(owner)}[]"
    return ""


def _frame(frame: Seen) -> str:
    return frame_text(frame.f_code, frame.f_lineno or frame.f_code.co_firstlineno)
