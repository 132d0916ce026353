"""Describes the arguments of a call as JAX sees them, and says what differs from another call."""

from __future__ import annotations

from typing import Any, NamedTuple

_LONGEST = 80
_MOST_LEAVES = 20_000


class ArgumentChange(NamedTuple):
    """Why a function was compiled again."""

    change: str
    """shape, dtype, weak type, sharding, static value, structure, function or unknown."""
    argument: str
    before: str
    after: str
    more: int
    """How many other arguments have changed too."""


class Signature:
    """What the arguments of a call are: all that JAX compiles a function for, apart from its settings."""

    def __init__(self, statics: dict[str, str], leaves: dict[str, tuple[str, ...]]) -> None:
        self.statics, self.leaves = statics, leaves

    @classmethod
    def of(cls, jax: Any, args: Any, kwargs: Any, names: list[str], statics: set[Any]) -> Signature:
        """Describe arguments.

        Args:
            jax: The module.
            args: Positional arguments.
            kwargs: Keyword arguments.
            names: Names of the positional arguments, as far as they are known.
            statics: Positions and keywords of the arguments that are compiled in.
        """
        fixed, leaves = dict[str, str](), dict[str, tuple[str, ...]]()
        given = [(at, names[at] if at < len(names) else f"argument {at}", one) for at, one in enumerate(args)]
        for key, name, value in [*given, *((key, key, one) for key, one in kwargs.items())]:
            if key in statics:
                fixed[name] = _text(value)
                continue
            found, structure = jax.tree_util.tree_flatten_with_path(value)
            for path, leaf in found[:_MOST_LEAVES]:
                leaves[name + jax.tree_util.keystr(path)] = _described(leaf)
            if len(found) != 1:
                fixed[name] = f"structure {hash(structure)}"
        return cls(fixed, leaves)

    def changes(self, before: Signature) -> list[ArgumentChange]:
        """Return the differences from an earlier call."""
        found = [
            ArgumentChange("static value", name, before.statics.get(name, "absent"), text, 0)
            for name, text in self.statics.items()
            if before.statics.get(name) != text and not text.startswith("structure ")
        ]
        for path, leaf in self.leaves.items():
            other = before.leaves.get(path)
            if other is None:
                found.append(ArgumentChange("structure", path, "absent", _whole(leaf), 0))
            elif other != leaf:
                found.append(_difference(path, other, leaf))
        gone = [path for path in before.leaves if path not in self.leaves]
        found += [
            ArgumentChange("structure", path, _whole(before.leaves[path]), "absent", 0) for path in gone
        ]
        if not found:
            found = [
                ArgumentChange("structure", name, "another structure", "this structure", 0)
                for name, text in self.statics.items()
                if text.startswith("structure ") and before.statics.get(name) != text
            ]
        return found


_KINDS = ("dtype", "shape", "weak type", "sharding")


def _difference(path: str, before: tuple[str, ...], after: tuple[str, ...]) -> ArgumentChange:
    for kind, one, other in zip(_KINDS, before, after, strict=True):
        if one != other:
            if kind in ("dtype", "shape"):
                return ArgumentChange(kind, path, _whole(before), _whole(after), 0)
            return ArgumentChange(kind, path, one, other, 0)
    raise ValueError(f"{path} has not changed")


def _whole(leaf: tuple[str, ...]) -> str:
    """Return an array as JAX writes it: `float32[64,10]`."""
    return leaf[0] + leaf[1]


def _described(leaf: Any) -> tuple[str, ...]:
    """Return data type, shape, weak type and sharding."""
    shape, dtype = getattr(leaf, "shape", None), getattr(leaf, "dtype", None)
    if shape is None or dtype is None:  # a number of Python
        return type(leaf).__name__, "", "weak", ""
    aval = getattr(leaf, "aval", None)
    weak = "weak" if getattr(aval, "weak_type", False) else "strong"
    sharding = ""
    if getattr(leaf, "committed", False):
        sharding = _text(leaf.sharding)
    return str(dtype), "[" + ",".join(map(str, shape)) + "]", weak, sharding


def _text(value: object) -> str:
    """Return a short text of a value; of an object of the script only its class."""
    if value is None or isinstance(value, (bool, int, float, str, bytes, tuple, frozenset)):
        text = repr(value)
    elif type(value).__module__.split(".")[0] in ("jax", "jaxlib", "numpy"):
        text = str(value)
    else:
        text = f"{type(value).__qualname__} {hash(value) & 0xFFFF:04x}"
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
