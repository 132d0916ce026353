"""Records when TensorFlow traces a function, as COMPILE spans, and why it does so again."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from holter.recorder.frameworks.tensorflow.pipelines import place
from holter.recorder.patches import hide
from holter.schema.phases import Phase

if TYPE_CHECKING:
    from collections.abc import Callable

    from holter.recorder.guard import CircuitBreaker
    from holter.recorder.patches import Patches
    from holter.recorder.session import Session

MOST_FACTS = 1000
"""Traces that are journaled."""
MOST_NAMES = 1000
_TEXT = 160


class Traces:
    """Times the outermost traces, and journals them with what changed since the trace before."""

    def __init__(self, session: Session, patches: Patches, breaker: CircuitBreaker) -> None:
        self._session, self._patches, self._breaker = session, patches, breaker
        self._depth = 0
        self._counts: dict[str, int] = {}
        """Function with file and line → how often it was traced, apart from equal traces."""
        self._facts = 0

    def attach(self) -> None:
        """Hook what builds the graph of a function for the types of its arguments."""
        compilation = sys.modules["tensorflow.python.eager.polymorphic_function.tracing_compilation"]
        if not self._patches.wrap(compilation, "_create_concrete_function", self._tracing):
            raise LookupError("this TensorFlow has no _create_concrete_function")

    def _tracing(self, original: Any) -> Callable[..., Any]:
        def wrapper(function_type: Any, type_context: Any, func_graph: Any, tracing_options: Any) -> Any:
            code, began = 0, 0
            self._depth += 1
            try:
                if self._breaker.on and self._depth == 1:
                    code = self._session.name(f"trace {tracing_options.name}") << 8 | int(Phase.COMPILE)
                    began = self._session.local.begin(code)
            except Exception as error:
                code = 0
                self._breaker.fault(error)
            try:
                return original(function_type, type_context, func_graph, tracing_options)
            except BaseException as error:
                hide(error)
                raise
            finally:
                self._depth -= 1
                if code:
                    self._ended(code, began, function_type, tracing_options)

        return wrapper

    def _ended(self, code: int, began: int, function_type: Any, options: Any) -> None:
        try:
            now = self._session.local.end_of(code)
            self._note(now, (now - began) / 1e9, function_type, options)
        except Exception as error:
            self._breaker.fault(error)

    def _note(self, now: int, seconds: float, function_type: Any, options: Any) -> None:
        """Journal a trace, and what made it necessary if the function was traced before."""
        name = _place(options)
        # This trace joins the others after it has ended.
        before = list(options.function_cache.values()) if options.function_cache is not None else []
        changes = changed(_types(before[-1].function_type), _types(function_type)) if before else []
        if before and not changes:
            return  # the second trace of a function that made variables in its first
        if name not in self._counts and len(self._counts) >= MOST_NAMES:
            return
        number = self._counts[name] = self._counts.get(name, 0) + 1
        self._facts += 1
        if self._facts > MOST_FACTS:
            return
        fact: dict[str, Any] = {
            "time": now,
            "step": self._session.step,
            "function": name,
            "number": number,
            "seconds": round(seconds, 6),
            "jitted": True,
        }
        if number > 1:
            # tf.function is called again for the same code, so TensorFlow does not know its traces.
            fact |= changes[0] if changes else dict.fromkeys(("argument", "before", "after"), "")
            fact |= {"change": fact.get("change", "function"), "more": max(len(changes) - 1, 0)}
        self._session.journal("compiled", fact)


def _types(function_type: Any) -> dict[str, Any]:
    return {one.name: one.type_constraint for one in function_type.parameters.values()}


def changed(before: dict[str, Any], after: dict[str, Any]) -> list[dict[str, str]]:
    """Return which arguments have another type than in the trace before, and what of it changed."""
    found = []
    for name, one in after.items():
        old = before.get(name)
        if one != old:
            change, texts = "type", (str(old), str(one))
            for kind in ("shape", "dtype"):
                values = getattr(old, kind, None), getattr(one, kind, None)
                if None not in values and values[0] != values[1]:
                    change, texts = kind, (str(values[0]), str(values[1]))
                    break
            else:
                if all(text.startswith("Literal[") for text in texts):
                    change, texts = "value", (texts[0][8:-1], texts[1][8:-1])
            found.append(
                {"change": change, "argument": name, "before": _cut(texts[0]), "after": _cut(texts[1])}
            )
    return found


def _cut(text: str) -> str:
    return text if len(text) <= _TEXT else f"{text[:_TEXT]}…"


def _place(options: Any) -> str:
    """Return the name of a traced function with its file and line."""
    function = options.python_function
    for _ in range(10):
        inner = getattr(function, "__wrapped__", None) or getattr(function, "__func__", None)
        if inner is None:
            break
        function = inner
    code = getattr(function, "__code__", None)
    if code is None:
        return str(options.name)
    return place(code)
