"""Records when TensorFlow traces a function, as COMPILE spans, and why it does so again."""

from __future__ import annotations

import sys
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from holter.recorder.patches import hide
from holter.schema.phases import Phase

if TYPE_CHECKING:
    from collections.abc import Callable

    from holter.recorder.guard import CircuitBreaker
    from holter.recorder.patches import Patches
    from holter.recorder.session import Session

MOST_REASONS = 200
"""Repeated traces that are journaled."""
MOST_NAMES = 1000
_TEXT = 160
_NEW_FUNCTION = "another tf.function object: tf.function is called again for the same code"


class Traces:
    """Times the outermost traces, and journals those of code that was traced before."""

    def __init__(self, session: Session, patches: Patches, breaker: CircuitBreaker) -> None:
        self._session, self._patches, self._breaker = session, patches, breaker
        self._depth = 0
        self._traced: dict[str, int] = {}
        """Function with file and line → how often another object of it was traced before."""
        self._reasons = 0

    def attach(self) -> None:
        """Hook what builds the graph of a function for the types of its arguments."""
        compilation = sys.modules["tensorflow.python.eager.polymorphic_function.tracing_compilation"]
        if not self._patches.wrap(compilation, "_create_concrete_function", self._tracing):
            raise LookupError("this TensorFlow has no _create_concrete_function")

    def _tracing(self, original: Any) -> Callable[..., Any]:
        def wrapper(function_type: Any, type_context: Any, func_graph: Any, tracing_options: Any) -> Any:
            code = 0
            self._depth += 1
            try:
                if self._breaker.on and self._depth == 1:
                    self._explain(function_type, tracing_options)
                    code = self._session.name(f"trace {tracing_options.name}") << 8 | int(Phase.COMPILE)
                    self._session.local.begin(code)
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
                    self._session.local.end_of(code)

        return wrapper

    def _explain(self, function_type: Any, options: Any) -> None:
        """Journal why a function is traced again, unless this is its first trace."""
        name = _place(options)
        before = list(options.function_cache.values()) if options.function_cache is not None else []
        if before:
            reason = changed(_types(before[-1].function_type), _types(function_type))
        else:
            if len(self._traced) < MOST_NAMES:
                self._traced[name] = self._traced.get(name, 0) + 1
            # A class may make one function for each of its objects; a loop makes many.
            reason = _NEW_FUNCTION if self._traced.get(name, 0) > 2 else ""
        if reason and self._reasons < MOST_REASONS:
            self._reasons += 1
            fact = {"function": name, "reason": reason, "step": self._session.step}
            self._session.journal("recompile", {**fact, "time": perf_counter_ns()})


def _types(function_type: Any) -> dict[str, Any]:
    return {one.name: one.type_constraint for one in function_type.parameters.values()}


def changed(before: dict[str, Any], after: dict[str, Any]) -> str:
    """Return which arguments have another type than in the trace before; empty if none has."""
    texts = [
        f"argument {name}: {_text(one)}, before {_text(before.get(name))}"
        for name, one in after.items()
        if one != before.get(name)
    ]
    return "; ".join(texts)


def _text(constraint: Any) -> str:
    """Return a type as TensorFlow writes it, without what all of them share."""
    text = str(constraint).replace("TensorSpec", "").replace(", name=None", "").replace("dtype=tf.", "")
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
    return f"{code.co_name} ({code.co_filename.rpartition('/')[2]}:{code.co_firstlineno})"
