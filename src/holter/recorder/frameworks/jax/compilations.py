"""Records what JAX compiles, for how long, and why a function was compiled again."""

from __future__ import annotations

import inspect
import threading
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, NamedTuple

from holter.recorder.frameworks.jax.signatures import ArgumentChange, Signature
from holter.schema.phases import Phase

if TYPE_CHECKING:
    from holter.recorder.frameworks.jax.transforms import TracedFunction
    from holter.recorder.session import Session

_EVENTS = {
    "/jax/core/compile/jaxpr_trace_duration": "trace",
    "/jax/core/compile/jaxpr_to_mlir_module_duration": "lower",
    "/jax/core/compile/backend_compile_duration": "compile",
}
"""Duration that JAX reports → stage of compiling."""
_SHORTEST_NS = 1_000_000
"""A shorter stage has no span."""
_MOST_FACTS = 5000
_KEPT = 16
"""Arguments that a program was compiled for, among which the most similar is looked for."""
_COMPILE = int(Phase.COMPILE)


class _Stage(NamedTuple):
    stage: str
    function: str
    ns: int


class _Pending(threading.local):
    def __init__(self) -> None:
        self.events: list[_Stage] = []
        """What was compiled since somebody looked."""


class Compilations:
    """Writes COMPILE spans, and a fact for each compilation."""

    def __init__(self, session: Session, jax: Any) -> None:
        self._session, self._jax = session, jax
        self.breaker = session.breaker("jax.compile")
        self.pending = _Pending()
        self._on = False
        self._facts = 0
        self._counts: dict[Any, int] = {}
        """How often each function was compiled."""
        self._known: dict[Any, list[Signature]] = {}

    now = staticmethod(perf_counter_ns)

    def attach(self) -> None:
        """Listen to JAX."""
        self._on = True
        self._jax.monitoring.register_event_duration_secs_listener(self._heard)

    def detach(self) -> None:
        """Listen no more."""
        self._on = False
        remove = getattr(self._jax.monitoring, "unregister_event_duration_listener", None)
        if remove is not None:
            remove(self._heard)

    def _heard(self, event: str, seconds: float, **about: Any) -> None:
        stage = _EVENTS.get(event)
        if stage is None or not self._on or not self.breaker.on:
            return
        try:
            ended, took = perf_counter_ns(), int(seconds * 1e9)
            function = str(about.get("fun_name") or "")
            self.pending.events.append(_Stage(stage, function, took))
            if took >= _SHORTEST_NS:
                name = self._session.name(f"{stage} {function}".strip())
                self._session.thread_spool().add(_COMPILE, name, ended - took, took)
        except Exception as error:
            self.breaker.fault(error)

    def compiled(self, program: TracedFunction, args: Any, kwargs: Any, began: int, ended: int) -> None:
        """Note that a call of a program compiled it, and compare its arguments with earlier ones."""
        events = self._take()
        if not any(one.stage == "compile" for one in events):
            return
        own = [one for one in events if _is_of(one.function, program.name)]
        chosen = own or events
        seconds = {
            stage: max((one.ns for one in chosen if one.stage == stage), default=0) / 1e9
            for stage in _EVENTS.values()
        }
        signature = Signature.of(self._jax, args, kwargs, *_parameters(program))
        known, key = self._known.setdefault(program.key, []), program.key
        change = self._why(program, signature, known)
        known.append(signature)
        del known[:-_KEPT]
        program.known = [signature]
        self._note(program.name, key, sum(seconds.values()), ended, change)

    def outside(self, program: TracedFunction | None = None) -> None:
        """Note what was compiled outside of the calls of programs: single operations, or ahead of time."""
        for one in self._take():
            if one.stage == "compile":
                name = program.name if program is not None else one.function
                self._note(name, name, one.ns / 1e9, perf_counter_ns(), None, jitted=program is not None)

    def _why(
        self, program: TracedFunction, signature: Signature, known: list[Signature]
    ) -> ArgumentChange | None:
        if not known:
            return None
        changes = min((signature.changes(one) for one in reversed(known)), key=len)
        if changes:
            return changes[0]._replace(more=len(changes) - 1)
        if not program.known:
            return ArgumentChange("function", "", "", "", 0)
        return ArgumentChange("unknown", "", "", "", 0)

    def _note(
        self,
        name: str,
        key: Any,
        seconds: float,
        now: int,
        change: ArgumentChange | None,
        *,
        jitted: bool = True,
    ) -> None:
        number = self._counts[key] = self._counts.get(key, 0) + 1
        self._facts += 1
        if self._facts > _MOST_FACTS:
            return
        fact: dict[str, Any] = {
            "time": now,
            "step": self._session.step,
            "function": name,
            "number": number,
            "seconds": round(seconds, 6),
            "jitted": jitted,
        }
        if change is not None:
            fact |= change._asdict()
        self._session.journal("compiled", fact)

    def _take(self) -> list[_Stage]:
        events, self.pending.events = self.pending.events, []
        return events


def _is_of(reported: str, name: str) -> bool:
    return reported in (name, f"jit({name})", f"jit_{name}", f"pmap({name})")


def _parameters(program: TracedFunction) -> tuple[list[str], set[Any]]:
    """Return the names of a program's positional arguments; positions and keywords of its static ones."""
    try:
        names = list(inspect.signature(program.function).parameters)
    except (TypeError, ValueError):
        names = []
    options = program.options
    numbers = options.get("static_argnums", options.get("static_broadcasted_argnums"))
    listed = numbers if isinstance(numbers, (tuple, list)) else [] if numbers is None else [numbers]
    given = options.get("static_argnames")
    texts = [given] if isinstance(given, str) else list(given or ())
    statics: set[Any] = {at if at >= 0 else at + len(names) for at in listed}
    statics |= {names[at] for at in statics if at < len(names)}
    return names, statics | set(texts) | {names.index(text) for text in texts if text in names}
