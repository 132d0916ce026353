"""Records COMMUNICATION spans: blocking collectives, and the wait of DDP at the end of a backward pass."""

from __future__ import annotations

import inspect
import os
import weakref
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from holter.recorder.patches import followed
from holter.schema.phases import Phase

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holter.recorder.frameworks.pytorch.stepping.adapter_state import AdapterState
    from holter.recorder.patches import Patches

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
"""Parameters of a DDP module whose gradients are timed: the first ones, whose gradients are ready last."""
_REDUCTIONS = ("all_reduce", "all_reduce_coalesced", "reduce_scatter", "reduce_scatter_tensor")
_WITHOUT_TENSORS = ("barrier", "object", "object_list")
COMMUNICATION = int(Phase.COMMUNICATION)
NAN = float("nan")


class Distributed:
    """Times how long this rank waits for other ranks; journals its rank."""

    def __init__(self, adapter: AdapterState) -> None:
        self.adapter = adapter
        self.breaker = adapter.breaker("communication")
        self._last_gradient = 0
        self._ddp: weakref.ref[Any] | None = None
        self._wait_name = adapter.session.name("DDP gradients")
        self._gradient_bytes = NAN
        self.reductions = 0
        """Reductions that the script or a library has called; those of DDP are not among them."""
        self.exchanges = 0
        """The same for all collectives that pass on tensors."""
        self._codes: dict[tuple[str, str], int] = {}
        """Codes of spans of collectives within a process group, by collective and group."""

    def attach(self, patches: Patches) -> None:
        """Wrap collectives in both modules that export them, process groups, and DDP."""
        distributed = getattr(self.adapter.torch, "distributed", None)
        if distributed is None or not distributed.is_available():
            return
        c10d = distributed.distributed_c10d
        for name in ("init_process_group", *COLLECTIVES):
            original = getattr(c10d, name, None)
            if original is None:
                continue
            if name == "init_process_group":
                ours = followed(original, self._note_rank, self.breaker)
            else:
                ours = self._watch_collective(original)
            for owner in (c10d, distributed):
                if getattr(owner, name, None) is original:
                    patches.replace(owner, name, ours)
        if distributed.is_initialized():
            self._note_rank()
        ddp = self.adapter.torch.nn.parallel.DistributedDataParallel
        patches.after(ddp, "__init__", self._watch_gradients, self.breaker)
        timed, code = self.adapter.timed, self.adapter.code(Phase.COMMUNICATION, "sync_buffers")
        patches.wrap(ddp, "_sync_buffers", lambda original: timed(original, code, self.breaker, "waiting"))

    def _note_rank(self, *_: Any, **__: Any) -> None:
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
        reduces, exchanges = name in _REDUCTIONS, not name.endswith(_WITHOUT_TENSORS)

        def argument(what: str, args: tuple[Any, ...], kwargs: Mapping[str, object]) -> Any:
            place = places.get(what, len(args))
            return args[place] if len(args) > place else kwargs.get(what)

        def is_asynchronous(args: tuple[Any, ...], kwargs: Mapping[str, object]) -> Any:
            self.reductions += reduces
            self.exchanges += exchanges
            return argument("async_op", args, kwargs)

        def size(args: tuple[Any, ...], kwargs: Mapping[str, object]) -> float:
            return max(map(_bytes, (*args, *kwargs.values())), default=0) or NAN

        def choose(args: tuple[Any, ...], kwargs: Mapping[str, object]) -> int:
            group = argument("group", args, kwargs)
            return default if group is None else self._code(name, group, default)

        return self.adapter.timed(original, default, self.breaker, "waiting", size, is_asynchronous, choose)

    def _code(self, name: str, group: Any, default: int) -> int:
        """Return the code of a collective within a group; journal the ranks of a new group."""
        c10d = self.adapter.torch.distributed.distributed_c10d
        if group is c10d.GroupMember.WORLD:
            return default
        group_name = str(getattr(group, "group_name", id(group)))
        code = self._codes.get((name, group_name))
        if code is None:
            if not any(known == group_name for _, known in self._codes):
                ranks = c10d.get_process_group_ranks(group)
                self.adapter.session.journal("process_group", {"name": group_name, "ranks": ranks})
            code = self.adapter.code(Phase.COMMUNICATION, f"{name} in {group_name}")
            self._codes[name, group_name] = code
        return code

    # -- DDP

    @property
    def ddp(self) -> Any:
        """The newest DDP module that still exists, or None."""
        return self._ddp() if self._ddp is not None else None

    def _watch_gradients(self, result: None, ddp: Any, *_: Any, **__: Any) -> None:
        """Note the time at which the last local gradients are ready.

        The hooks are on parameters, but copies and pickles of a parameter do not contain them.
        """
        self._ddp = weakref.ref(ddp)
        if self._end_backward not in self.adapter.before_end:
            self.adapter.before_end.append(self._end_backward)
        trained = [p for p in ddp.module.parameters() if p.requires_grad]
        self._gradient_bytes = float(sum(map(_bytes, trained)))
        for parameter in trained[:WATCHED_PARAMETERS]:
            parameter.register_post_accumulate_grad_hook(self._on_gradient)

    def _on_gradient(self, parameter: Any) -> None:
        self._last_gradient = perf_counter_ns()

    def _end_backward(self, began: int) -> None:
        """Write how long the backward pass continued after the last local gradient."""
        last, self._last_gradient = self._last_gradient, 0
        ddp = self.ddp
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
