"""Declare parameters on dataclasses, read them in any spelling, and check their values."""

from __future__ import annotations

import ast
import difflib
import inspect
import itertools
import math
import textwrap
import types
from dataclasses import MISSING, dataclass, field, fields, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Union, get_args, get_origin, get_type_hints

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_SAME: Any = object()
_METADATA = ("classic", "low", "high", "above", "choices", "unit", "aliases", "instead_of", "meaning")
BOOLEANS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


class BadParameter(ValueError):  # noqa: N818 - its text is a sentence for the user
    """An unknown parameter or a value that is not valid; the text names what is valid."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One declared parameter, for lists, pages and checks."""

    name: str
    type: str
    modern: Any
    classic: Any
    low: float | None
    high: float | None
    above: float | None
    choices: tuple[str, ...]
    unit: str
    aliases: tuple[str, ...]
    instead_of: str
    meaning: str

    def as_field(self) -> Any:
        """Return a field of a dataclass that declares this parameter."""
        default = tuple(self.modern) if isinstance(self.modern, list) else self.modern
        metadata = {name: getattr(self, name) for name in _METADATA}
        return field(default=default, metadata=metadata)

    @property
    def valid(self) -> str:
        """The values that it takes, in words."""
        if self.choices:
            return " or ".join(self.choices)
        words = {"int": "a whole number", "float": "a number", "bool": "true or false"}
        type_ = self.type.removesuffix(" | None")
        if type_.startswith("tuple["):
            kinds = {"tuple[str, ...]": "texts", "tuple[int, ...]": "whole numbers"}
            text = f"a list of {kinds.get(type_, 'numbers')}, separated by commas"
        else:
            text = words.get(type_, "text")
        if self.low is not None and self.high is not None:
            text += f" from {self.low:g} to {self.high:g}"
        elif self.above is not None:
            text += f" above {self.above:g}"
        elif self.low is not None:
            text += f", at least {self.low:g}"
        return text + (" or None" if self.type.endswith("| None") else "")


def parameter(
    modern: Any,
    *,
    classic: Any = _SAME,
    low: float | None = None,
    high: float | None = None,
    above: float | None = None,
    choices: tuple[str, ...] = (),
    unit: str = "",
    aliases: tuple[str, ...] = (),
    instead_of: str = "",
) -> Any:
    """Declare a parameter as a field of a dataclass.

    Args:
        modern: Its default.
        classic: Its default in the profile `classic`, when it differs.
        low: The lowest value that is valid.
        high: The highest value that is valid.
        above: Values must be greater than this.
        choices: The only values that are valid.
        unit: What it is measured in.
        aliases: Other names it may be given by.
        instead_of: The parameter that this one replaces when the user gives only this one.
    """
    declared = {"classic": modern if classic is _SAME else classic, "low": low, "high": high, "above": above}
    rest = {"choices": choices, "unit": unit, "aliases": aliases, "instead_of": instead_of}
    return field(default=modern, metadata={**declared, **rest})


def nearest(name: str, valid: Iterable[str]) -> str | None:
    """Return the valid name that looks most like `name`, if one does."""
    return next(iter(difflib.get_close_matches(name, list(valid), n=1, cutoff=0.5)), None)


def suggestion(name: str, valid: Iterable[str], text: str = "did you mean {!r}? ") -> str:
    """Return a hint at the nearest valid name, or nothing."""
    near = nearest(name, valid)
    return text.format(near) if near else ""


def split_options(
    text: str, who: str, noun: str, refusal: type[BadParameter], *, quotes: str = ""
) -> dict[str, str]:
    """Split `key=value,key=value`; a value in brackets or quotes may hold commas.

    Args:
        text: The text.
        who: The subject of an error's sentence.
        noun: The word for an option in an error's sentence.
        refusal: The error for a piece without `=`, a key that is given twice, or an open bracket or quote.
        quotes: The signs that quote a value.
    """
    pieces, piece, depth, quote = list[str](), "", 0, ""
    for letter in text:
        if quote:
            quote = "" if letter == quote else quote
        elif letter in quotes:
            quote = letter
        else:
            depth += (letter in "[(") - (letter in "])")
        if letter == "," and not quote and depth <= 0:
            pieces.append(piece)
            piece = ""
        else:
            piece += letter
    if quote or depth > 0:
        raise refusal(f"{who}: a {'quote' if quote else 'bracket'} does not end in {text!r}")
    found: dict[str, str] = {}
    for one in filter(str.strip, [*pieces, piece]):
        key, equals, value = map(str.strip, one.partition("="))
        if not equals or not key:
            raise refusal(f"{who}: {one.strip()!r} is no {noun}; write NAME:key=value,key=value")
        if key in found:
            raise refusal(f"{who}: {noun} {key!r} is given twice")
        quoted = len(value) > 1 and value[0] == value[-1] and value[0] in quotes
        found[key] = value[1:-1] if quoted else value
    return found


@cache
def declared(owner: Any) -> tuple[Parameter, ...]:
    """Return the parameters of a dataclass, with the sentences that follow them in its source."""
    meanings = _meanings(owner)
    return tuple(replace(one, meaning=one.meaning or meanings.get(one.name, "")) for one in specified(owner))


@cache
def specified(owner: Any) -> tuple[Parameter, ...]:
    """Return the parameters without parsing the source for their sentences; this is enough for checks."""
    return tuple(
        Parameter(
            name=f.name,
            type=_type_text(_types(owner)[f.name]),
            modern=plain(f.default),
            classic=plain(f.metadata.get("classic", f.default)),
            low=f.metadata.get("low"),
            high=f.metadata.get("high"),
            above=f.metadata.get("above"),
            choices=f.metadata.get("choices", ()),
            unit=f.metadata.get("unit", ""),
            aliases=f.metadata.get("aliases", ()),
            instead_of=f.metadata.get("instead_of", ""),
            meaning=f.metadata.get("meaning", ""),
        )
        for f in fields(owner)
    )


def by_name(owner: Any, given: Mapping[str, Any], who: str, noun: str = "parameter") -> dict[str, Any]:
    """Return the given values by the declared names of their parameters; aliases and case are resolved.

    Args:
        owner: The dataclass.
        given: Values by name, as a user writes them.
        who: The subject of an error's sentence.
        noun: The word for a parameter in an error's sentence.

    Raises:
        BadParameter: An unknown name, or a parameter that is given twice.
    """
    names = {p.name.casefold(): p.name for p in specified(owner)}
    names |= {alias.casefold(): p.name for p in specified(owner) for alias in p.aliases}
    found: dict[str, Any] = {}
    for name, value in given.items():
        known = names.get(str(name).casefold())
        if known is None:
            valid = ", ".join(p.name for p in specified(owner)) or "none"
            near = nearest(str(name).casefold(), names)
            hint = f"did you mean {names[near]!r}? it" if near else "it"
            raise BadParameter(f"{who} has no {noun} {name!r}; {hint} has: {valid}")
        if known in found:
            raise BadParameter(f"{who}: {noun} {known!r} is given twice")
        found[known] = value
    return found


def resolved(owner: Any, given: Mapping[str, Any], profile: str, who: str) -> dict[str, Any]:
    """Return the values of all parameters: those given under any name, the others by profile."""
    if profile not in ("modern", "classic"):
        raise BadParameter(f"defaults={profile!r} is not valid; there are: modern, classic")
    explicit = by_name(owner, given, who)
    values = {f.name: f.metadata.get("classic") if profile == "classic" else f.default for f in fields(owner)}
    values |= explicit
    for f in fields(owner):
        other = str(f.metadata.get("instead_of") or "")
        set_here = {name for name in (f.name, other) if not _absent(explicit.get(name))}
        if other and set_here:
            # The two parameters express one limit: the given one counts, or the second when both are given.
            values[f.name if other in set_here else other] = None
    return values


def checked(owner: Any, name: str, value: Any) -> Any:
    """Return a parameter's value as its declared type; raises `BadParameter` with the valid values."""
    spec = next(p for p in specified(owner) if p.name == name)
    refusal = BadParameter(f"{name}={value!r} is not valid; it takes {spec.valid}")
    try:
        typed = _parsed(value, _types(owner)[name])
    except (ValueError, TypeError, OverflowError):
        raise refusal from None
    if typed is None:
        return None
    wrong = isinstance(typed, float) and not math.isfinite(typed)
    if isinstance(typed, int | float) and not wrong:
        wrong = (
            (spec.low is not None and typed < spec.low)
            or (spec.high is not None and typed > spec.high)
            or (spec.above is not None and typed <= spec.above)
        )
    if wrong or (spec.choices and typed not in spec.choices):
        raise refusal
    return typed


def plain(value: Any) -> Any:
    """Return a parameter's value as JSON can hold it."""
    if value is MISSING:
        return None
    return list(value) if isinstance(value, tuple) else value


@cache
def _types(owner: Any) -> dict[str, Any]:
    return get_type_hints(owner)


def _type_text(hint: Any) -> str:
    """Return a type as an annotation; values of unknown types are texts."""
    if get_origin(hint) in (Union, types.UnionType):
        return " | ".join(_type_text(option) for option in get_args(hint))
    if get_origin(hint) is tuple:
        return f"tuple[{_type_text(get_args(hint)[0])}, ...]"
    return "None" if hint is type(None) else hint.__name__ if hint in (int, float, bool) else "str"


def _parsed(value: Any, wanted: Any) -> Any:
    if get_origin(wanted) in (Union, types.UnionType):
        options = get_args(wanted)
        if _absent(value):
            return None
        return _parsed(value, next(o for o in options if o is not type(None)))
    if get_origin(wanted) is tuple:
        parts = _listed(value) if isinstance(value, str) else list(value)
        texts = (p.strip() if isinstance(p, str) else p for p in parts)
        return tuple(_parsed(p, get_args(wanted)[0]) for p in texts if p != "")
    if wanted is bool:
        return value if isinstance(value, bool) else _boolean(value)
    if isinstance(value, bool) or value is None:
        raise TypeError(value)
    if wanted is int:
        number = float(value)
        if number != int(number):
            raise ValueError(value)
        return int(value) if not isinstance(value, str) else int(number)
    if wanted is float:
        return float(value)
    if not isinstance(value, str):
        raise TypeError(value)
    return value.strip()


def _listed(text: str) -> list[Any]:
    """Split a list as users write it: `a, b` or `["a", "b"]`. Other brackets are part of a value."""
    try:
        given = ast.literal_eval(text.strip())
    except (ValueError, SyntaxError):
        return text.split(",")
    return list(given) if isinstance(given, list | tuple) else text.split(",")


def _absent(value: Any) -> bool:
    return value is None or (isinstance(value, str) and value.strip().casefold() in ("", "none", "null"))


def _boolean(value: Any) -> bool:
    text = str(value).strip().casefold()
    if text not in BOOLEANS:
        raise ValueError(value)
    return BOOLEANS[text]


def _meanings(owner: Any) -> dict[str, str]:
    # Inherited parameters have sentences too; the class's own sentence wins.
    inherited = [_meanings(parent) for parent in owner.__bases__ if parent is not object]
    found = {name: meaning for each in inherited for name, meaning in each.items()}
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(owner)))
    except (OSError, TypeError, SyntaxError):  # a class that was typed at a prompt has no source
        return found
    body = tree.body[0].body if isinstance(tree.body[0], ast.ClassDef) else []
    for line, after in itertools.pairwise(body):
        if (
            isinstance(line, ast.AnnAssign)
            and isinstance(line.target, ast.Name)
            and isinstance(after, ast.Expr)
            and isinstance(after.value, ast.Constant)
            and isinstance(after.value.value, str)
        ):
            found[line.target.id] = " ".join(after.value.value.split())
    return found
