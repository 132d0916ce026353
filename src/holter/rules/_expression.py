"""A small language for rules, parsed and worked out here, so that nothing of Python can be reached from it.

`grad_norm > 10 for 3 steps` · `rms(grad("decoder.*")) > 10` · `avg_over(gpu.util, 5m) < 30 for 10m`
"""

from __future__ import annotations

import math
import operator
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holter.rules._by_step import COUNTS, STATISTICS, Step
from holter.rules._parameters import BadRule, nearest
from holter.schema.metrics import METRICS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Value = float | bool | dict[str, Any] | None
"""A number or a truth; one for each tensor or device; nothing where it is not known."""

_TOKEN = re.compile(
    r"\s*(?:(?P<time>\d+(?:\.\d+)?(?:min|s|m|h)\b)|(?P<number>\d+(?:\.\d*)?(?:[eE][-+]?\d+)?)"
    r"|(?P<text>\"[^\"]*\"|'[^']*')|(?P<name>[A-Za-z_][\w.]*)|(?P<sign><=|>=|==|!=|[-+*/()<>,]))"
)
_SECONDS = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
_ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": lambda a, b: a / b if b else math.nan,
}
_FUNCTIONS: dict[str, Callable[[Any], Any]] = {"abs": abs, "nonfinite": lambda x: not math.isfinite(x)}
_OVER = ("avg_over", "min_over", "max_over")
_SELECT = ("tensor", "grad")
_TOLD = (*STATISTICS, *COUNTS, "var", "rms", "l2", "abs_max")
MOST_DEEP = 40
LONGEST_S = 3600.0


@dataclass(frozen=True, slots=True)
class Node:
    """One part of an expression."""

    kind: str
    """number, scalar, tensor, over, or the sign or word that joins its parts."""
    parts: tuple[Node, ...] = ()
    name: str = ""
    value: float = 0.0

    def text(self) -> str:
        """Write what a leaf is about, for the evidence."""
        if self.kind == "tensor":
            return f'{self.name.partition(" ")[0]}("{self.name.partition(" ")[2]}")'
        return f"{self.name}, {self.value:g}s)" if self.kind == "over" else self.name

    def leaves(self) -> list[Node]:
        """Return the parts that stand for data."""
        if self.kind in ("scalar", "tensor", "over"):
            return [self]
        return [leaf for part in self.parts for leaf in part.leaves()]


@dataclass(frozen=True, slots=True)
class Expression:
    """A condition, and for how long it must hold."""

    condition: Node
    steps: int = 1
    seconds: float = 0.0

    @property
    def timed(self) -> bool:
        """Whether it is about readings of the machine, and not about steps."""
        return any(leaf.kind == "over" for leaf in self.condition.leaves())

    @property
    def reads(self) -> tuple[str, ...]:
        """The tables it needs."""
        leaves = self.condition.leaves()
        if self.timed:
            return tuple(sorted({f"samples/{leaf.name.partition('(')[2]}" for leaf in leaves}))
        tables = {"tensors" if leaf.kind == "tensor" else "scalars" for leaf in leaves}
        tables |= {"steps"} & {"steps" for leaf in leaves if leaf.name == "step_seconds"}
        return tuple(sorted(tables))


def parse(text: str) -> Expression:
    """Read an expression.

    Raises:
        BadRule: What is wrong, and at which character.
    """
    return _Parser(text).whole()


def value_of(node: Node, look: Callable[[Node], Value]) -> Any:
    """Work out a part of an expression; `look` gives what its leaves stand for."""
    if node.kind == "number":
        return node.value
    if node.kind in ("scalar", "tensor", "over"):
        return look(node)
    values = [value_of(part, look) for part in node.parts]
    if node.kind in ("and", "or"):
        known = [value for value in values if value is not None]
        if len(known) < 2:
            return None
        both = operator.and_ if node.kind == "and" else operator.or_
        return _joined(lambda a, b: both(bool(a), bool(b)), *known)
    if any(value is None for value in values):
        return None
    if node.kind == "not":
        return _joined(operator.not_, *values)
    if node.kind == "negative":
        return _joined(operator.neg, *values)
    return _joined(_COMPARE.get(node.kind) or _ARITHMETIC.get(node.kind) or _FUNCTIONS[node.kind], *values)


def leaf_of(step: Step) -> Callable[[Node], Value]:
    """Return what gives a step's numbers and tensors."""

    def look(node: Node) -> Value:
        if node.kind == "scalar":
            return step.seconds if node.name == "step_seconds" else step.scalars.get(node.name)
        statistic, _, pattern = node.name.partition(" ")
        found = {name: told[statistic] for name, told in step.tensors.items() if re.fullmatch(pattern, name)}
        return found or None

    return look


def _joined(function: Callable[..., Any], *values: Any) -> Any:
    """Apply a function to numbers, or for each tensor that all of them know."""
    many: list[Mapping[str, Any]] = [value for value in values if isinstance(value, dict)]
    if not many:
        return function(*values)
    keys = [key for key in many[0] if all(key in other for other in many)]
    return {key: function(*(v[key] if isinstance(v, dict) else v for v in values)) for key in keys} or None


class _Parser:
    """Reads from left to right; each method reads what binds tighter than the one before."""

    def __init__(self, text: str) -> None:
        self._text, self._tokens, self._at, self._deep = text, list[tuple[str, str, int]](), 0, 0
        at = 0
        while text[at:].strip():
            match = _TOKEN.match(text, at)
            if match is None:
                rest = len(text) - len(text[at:].lstrip())
                raise BadRule(f"when={text!r}: {text[rest]!r} at character {rest + 1} is not understood")
            kind = str(match.lastgroup)
            self._tokens.append((kind, match[kind], match.start(kind)))
            at = match.end()

    def whole(self) -> Expression:
        condition, steps, seconds = self._or(), 1, 0.0
        if condition.kind not in (*_COMPARE, "and", "or", "not", "nonfinite"):
            self._wrong("a comparison is missing, as in grad_norm > 10")
        if self._take("for"):
            kind, word, _ = self._next("a number of steps or a time, as in `for 3 steps` or `for 5m`")
            if kind == "time":
                seconds = _time(word)
            elif (
                kind == "number"
                and float(word) == int(float(word)) >= 1
                and (self._take("steps") or self._take("step"))
            ):
                steps = int(float(word))
            else:
                self._wrong("`for` takes a number of steps or a time, as in `for 3 steps` or `for 5m`")
        if self._at < len(self._tokens):
            self._wrong(f"{self._tokens[self._at][1]!r} is too much")
        made = Expression(condition, steps, seconds)
        kinds = {leaf.kind == "over" for leaf in condition.leaves()}
        if not kinds:
            self._wrong("it is about no number of the training and no metric")
        if len(kinds) > 1:
            self._wrong("numbers of steps and readings of the machine cannot be mixed")
        if made.timed and steps > 1:
            self._wrong("readings of the machine have no steps; write a time, as in `for 5m`")
        return made

    def _or(self) -> Node:
        return self._chain(self._and, ("or",))

    def _and(self) -> Node:
        return self._chain(self._not, ("and",))

    def _not(self) -> Node:
        return Node("not", (self._not(),)) if self._take("not") else self._comparison()

    def _comparison(self) -> Node:
        left = self._sum()
        for sign in _COMPARE:
            if self._take(sign):
                return Node(sign, (left, self._sum()))
        return left

    def _sum(self) -> Node:
        return self._chain(self._product, ("+", "-"))

    def _product(self) -> Node:
        return self._chain(self._unary, ("*", "/"))

    def _chain(self, part: Callable[[], Node], signs: tuple[str, ...]) -> Node:
        left = part()
        while (sign := next((one for one in signs if self._take(one)), None)) is not None:
            left = Node(sign, (left, part()))
        return left

    def _unary(self) -> Node:
        self._deep += 1
        if self._deep > MOST_DEEP:
            self._wrong("it is nested too deep")
        found = Node("negative", (self._unary(),)) if self._take("-") else self._primary()
        self._deep -= 1
        return found

    def _primary(self) -> Node:
        kind, word, _ = self._next("a number or a name")
        if kind == "number":
            return Node("number", value=float(word))
        if word == "(":
            inner = self._or()
            self._expect(")")
            return inner
        if kind != "name":
            self._at -= 1
            self._wrong(f"a number or a name is missing before {word!r}")
        return self._call(word) if self._take("(") else self._scalar(word)

    def _scalar(self, name: str) -> Node:
        if name in METRICS:
            self._wrong(f"{name} is a reading of the machine; write avg_over({name}, 5m)")
        return Node("scalar", name=name)

    def _call(self, name: str) -> Node:
        if name in _OVER:
            _, metric, _ = self._next("a metric")
            if metric not in METRICS:
                near = nearest(metric, METRICS)
                self._wrong(f"no metric {metric!r}" + (f"; did you mean {near}?" if near else ""))
            self._expect(",")
            kind, word, _ = self._next("a time, as in 5m")
            if kind != "time" or not 10 <= _time(word) <= LONGEST_S:
                self._wrong(f"{word!r} is no time from 10s to 1h")
            found = Node("over", name=f"{name}({metric}", value=_time(word))
        elif name == "scalar":
            found = Node("scalar", name=self._quoted())
        elif name in _FUNCTIONS:
            found = Node(name, (self._or(),))
        elif name in _TOLD:
            kind, select, _ = self._next('tensor("…") or grad("…")')
            if select not in _SELECT or not self._take("("):
                self._wrong(f'{name} is of tensors: {name}(tensor("fc1.weight")) or {name}(grad("fc1.*"))')
            pattern = self._quoted()
            self._expect(")")
            prefix = "gradient/" if select == "grad" else ""
            found = Node("tensor", name=f"{name} {prefix}{pattern}")
        else:
            valid = (*_OVER, "scalar", *_FUNCTIONS, *_TOLD)
            near = nearest(name, valid)
            hint = f"did you mean {near}? " if near else ""
            self._wrong(f"no function {name!r}; {hint}there are: {', '.join(valid)}")
        self._expect(")")
        return found

    def _quoted(self) -> str:
        kind, word, _ = self._next("a text in quotes")
        if kind != "text":
            self._wrong(f"{word!r} must stand in quotes")
        try:
            re.compile(word[1:-1])
        except re.error as error:
            self._wrong(f"{word} is no pattern: {error}")
        return word[1:-1]

    def _next(self, wanted: str) -> tuple[str, str, int]:
        if self._at >= len(self._tokens):
            self._wrong(f"it ends where {wanted} should come")
        self._at += 1
        return self._tokens[self._at - 1]

    def _take(self, word: str) -> bool:
        if self._at < len(self._tokens) and self._tokens[self._at][1] == word:
            self._at += 1
            return True
        return False

    def _expect(self, sign: str) -> None:
        if not self._take(sign):
            self._wrong(f"{sign!r} is missing")

    def _wrong(self, why: str) -> Any:
        at = self._tokens[min(self._at, len(self._tokens) - 1)][2] + 1 if self._tokens else 1
        raise BadRule(f"when={self._text!r}: {why} (near character {at})")


def _time(word: str) -> float:
    unit = word.lstrip("0123456789.")
    return float(word[: -len(unit)]) * _SECONDS[unit]
