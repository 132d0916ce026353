"""The parser of rule expressions; it is not Python's, so an expression cannot run code.

`grad_norm > 10 for 3 steps` · `rms(grad("decoder.*")) > 10` · `avg_over(gpu.util, 5m) < 30 for 10m`
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from holter.parameters import suggestion
from holter.rules.own.expression import COMPARE, FUNCTIONS, Expression, Node
from holter.rules.own.step import COUNTS, STATISTICS
from holter.rules.rule import BadRule
from holter.schema.metrics import METRICS

if TYPE_CHECKING:
    from collections.abc import Callable

_TOKEN = re.compile(
    r"\s*(?:(?P<time>\d+(?:\.\d+)?(?:min|s|m|h)\b)|(?P<number>\d+(?:\.\d*)?(?:[eE][-+]?\d+)?)"
    r"|(?P<text>\"[^\"]*\"|'[^']*')|(?P<name>[A-Za-z_][\w.]*)|(?P<sign><=|>=|==|!=|[-+*/()<>,]))"
)
_SECONDS = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
_OVER = ("avg_over", "min_over", "max_over")
_SELECT = ("tensor", "grad")
_TENSOR_FUNCTIONS = (*STATISTICS, *COUNTS, "var", "rms", "l2", "abs_max")
MOST_DEEP = 40
MOST_TOKENS = 300
"""The limit of an expression's size: others can write expressions into a store."""
LONGEST_S = 3600.0


def parse(text: str) -> Expression:
    """Parse an expression.

    Raises:
        BadRule: The expression is not valid; names the reason and the character.
    """
    return _Parser(text).whole()


class _Parser:
    """A recursive-descent parser; each method parses operators of higher precedence than the one before."""

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
            if len(self._tokens) > MOST_TOKENS:
                raise BadRule(
                    f"when={text[:60]!r}…: it is too long; {MOST_TOKENS} names, numbers and signs at most"
                )

    def whole(self) -> Expression:
        condition, steps, seconds = self._or(), 1, 0.0
        if condition.kind not in (*COMPARE, "and", "or", "not", "nonfinite"):
            self._wrong("a comparison is missing, as in grad_norm > 10")
        if self._take("for"):
            kind, word, _ = self._next("a number of steps or a time, as in `for 3 steps` or `for 5m`")
            if kind == "time":
                seconds = _time(word)
            elif (
                kind == "number"
                and 1 <= float(word) < 1e9
                and float(word).is_integer()
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
        for sign in COMPARE:
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
                self._wrong(f"no metric {metric!r}{suggestion(metric, METRICS, '; did you mean {}?')}")
            self._expect(",")
            kind, word, _ = self._next("a time, as in 5m")
            if kind != "time" or not 10 <= _time(word) <= LONGEST_S:
                self._wrong(f"{word!r} is no time from 10s to 1h")
            found = Node("over", name=f"{name}({metric}", value=_time(word))
        elif name == "scalar":
            found = Node("scalar", name=self._quoted())
        elif name in FUNCTIONS:
            found = Node(name, (self._or(),))
        elif name in _TENSOR_FUNCTIONS:
            kind, select, _ = self._next('tensor("…") or grad("…")')
            if select not in _SELECT or not self._take("("):
                self._wrong(f'{name} is of tensors: {name}(tensor("fc1.weight")) or {name}(grad("fc1.*"))')
            pattern = self._quoted()
            self._expect(")")
            prefix = "gradient/" if select == "grad" else ""
            found = Node("tensor", name=f"{name} {prefix}{pattern}")
        else:
            valid = (*_OVER, "scalar", *FUNCTIONS, *_TENSOR_FUNCTIONS)
            hint = suggestion(name, valid, "did you mean {}? ")
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
            self._wrong(f"{word} is not a regular expression: {error}")
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
