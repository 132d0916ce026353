"""Records COMMUNICATION spans: blocking collectives, and the wait of DDP after the backward pass."""

from __future__ import annotations

import inspect
import os
import weakref
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from holter.recorder.frameworks.pytorch.patches import hide
from holter.schema.phases import Phase

if TYPE_CHECKING:
    from holter.recorder.frameworks.pytorch.patches import Patches
    from holter.recorder.frameworks.pytorch.stepping.adapter_state import AdapterState

COLLECTIVES = (
    "all_gather",
    "all_gather_coalesced",
    "all_gather_into_tensor",
    "all_gather_object",
    "all_reduce",
    "all_reduce_coalesced",
    "all_to_all",
    "all_to_all_single",
    "barrier",
    "broadcast",
    "broadcast_object_list",
    "gather",
    "gather_object",
    "monitored_barrier",
    "recv",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_tensor",
    "scatter",
    "scatter_object_list",
    "send",
)
WATCHED_PARAMETERS = 4
"""Parameters of a DDP module whose gradients are timed: the first, whose gradients come last."""
COMMUNICATION = int(Phase.COMMUNICATION)
NAN = float("nan")


class Distributed:
    """Times what this rank waits for others; which rank it is goes into the journal."""

    def __init__(self, adapter: AdapterState) -> None:
        self.adapter = adapter
        self.breaker = adapter.breaker("communication")
        self._last_gradient = 0
        self._ddp: weakref.ref[Any] | None = None
        self._wait_name = adapter.session.name("DDP gradients")
        self._gradient_bytes = NAN
        self._codes: dict[tuple[str, str], int] = {}
        """Of spans of groups other than the one of all ranks, by collective and group."""

    def attach(self, patches: Patches) -> None:
        """Wrap collectives under both names that they have, process groups, and DDP."""
        distributed = getattr(self.adapter.torch, "distributed", None)
        if distributed is None or not distributed.is_available():
            return
        c10d = distributed.distributed_c10d
        for name in ("init_process_group", *COLLECTIVES):
            original = getattr(c10d, name, None)
            if original is None:
                continue
            watch = self._watch_init if name == "init_process_group" else self._watch_collective
            ours = watch(original)
            for owner in (c10d, distributed):
                if getattr(owner, name, None) is original:
                    patches.replace(owner, name, ours)
        if distributed.is_initialized():
            self._note_rank()
        ddp = self.adapter.torch.nn.parallel.DistributedDataParallel
        patches.wrap(ddp, "__init__", self._watch_ddp)
        patches.wrap(ddp, "_sync_buffers", self._timed)

    def _watch_init(self, original: Any) -> Any:
        def init_process_group(*args: Any, **kwargs: Any) -> Any:
            try:
                result = original(*args, **kwargs)
            except BaseException as error:
                hide(error)
                raise
            try:
                note()
            except Exception as error:
                breaker.fault(error)
            return result

        note, breaker = self._note_rank, self.breaker
        return init_process_group

    def _note_rank(self) -> None:
        distributed = self.adapter.torch.distributed
        local = os.environ.get("LOCAL_RANK", "")
        self.adapter.session.journal(
            "rank",
            {
                "rank": distributed.get_rank(),
                "local_rank": int(local) if local.isdecimal() else None,
                "world_size": distributed.get_world_size(),
            },
        )

    # -- collectives

    def _watch_collective(self, original: Any) -> Any:
        places = {name: place for place, name in enumerate(inspect.signature(original).parameters)}
        name = original.__name__
        default = self.adapter.code(Phase.COMMUNICATION, name)

        def given(what: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            place = places.get(what, len(args))
            return args[place] if len(args) > place else kwargs.get(what)

        def is_asynchronous(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            return given("async_op", args, kwargs)

        def size(args: tuple[Any, ...], kwargs: dict[str, Any]) -> float:
            return max(map(_bytes, (*args, *kwargs.values())), default=0) or NAN

        def choose(args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
            group = given("group", args, kwargs)
            return default if group is None else self._code(name, group, default)

        return self.adapter.timed(original, default, self.breaker, "waiting", size, is_asynchronous, choose)

    def _code(self, name: str, group: Any, default: int) -> int:
        """Return what begins a span of a collective of some ranks; those of a group are journaled once."""
        c10d = self.adapter.torch.distributed.distributed_c10d
        if group is c10d.GroupMember.WORLD:
            return default
        called = str(getattr(group, "group_name", id(group)))
        code = self._codes.get((name, called))
        if code is None:
            if not any(known == called for _, known in self._codes):
                ranks = c10d.get_process_group_ranks(group)
                self.adapter.session.journal("process_group", {"name": called, "ranks": ranks})
            code = self._codes[name, called] = self.adapter.code(Phase.COMMUNICATION, f"{name} in {called}")
        return code

    def _timed(self, original: Any) -> Any:
        code = self.adapter.code(Phase.COMMUNICATION, original.__name__.lstrip("_"))
        return self.adapter.timed(original, code, self.breaker, "waiting")

    # -- DDP

    def _watch_ddp(self, original: Any) -> Any:
        def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
            try:
                original(self, *args, **kwargs)
            except BaseException as error:
                hide(error)
                raise
            try:
                watch(self)
            except Exception as error:
                breaker.fault(error)

        watch, breaker = self._watch_gradients, self.breaker
        return __init__

    def _watch_gradients(self, ddp: Any) -> None:
        """Note when the gradients that are ready last are ready.

        These hooks sit on parameters, but neither a copy nor a pickle of a parameter takes them along.
        """
        self._ddp = weakref.ref(ddp)
        if self._end_backward not in self.adapter.before_end:  # nobody else pays for it
            self.adapter.before_end.append(self._end_backward)
        trained = [p for p in ddp.module.parameters() if p.requires_grad]
        self._gradient_bytes = float(sum(map(_bytes, trained)))
        for parameter in trained[:WATCHED_PARAMETERS]:
            parameter.register_post_accumulate_grad_hook(self._on_gradient)

    def _on_gradient(self, parameter: Any) -> None:
        self._last_gradient = perf_counter_ns()

    def _end_backward(self, began: int) -> None:
        """Write, inside the backward span, how long it went on after the last local gradient."""
        last, self._last_gradient = self._last_gradient, 0
        ddp = self._ddp() if self._ddp is not None else None
        if ddp is None or last < began or not ddp.require_backward_grad_sync:
            return
        state = self.adapter.states.current
        state.add(COMMUNICATION, self._wait_name, last, perf_counter_ns() - last, self._gradient_bytes)


def _bytes(value: Any) -> int:
    """Return the bytes of a tensor or of a list of them; 0 for anything else."""
    if isinstance(value, (list, tuple)):
        return sum(map(_bytes, value))
    count, size = getattr(value, "numel", None), getattr(value, "element_size", None)
    return count() * size() if callable(count) and callable(size) else 0
