"""Records COMMUNICATION spans: collectives, waits for them, and the wait of DDP after a backward pass.

FSDP2 calls the collectives of `torch.distributed`. DTensor, and so tensor parallelism, calls functional ones,
which return a tensor at once; `wait_tensor` waits when the training first uses it. Asynchronous collectives,
`isend` and `irecv` return a `Work`; the training waits in its method `wait`.
"""

from __future__ import annotations

import inspect
import os
import sys
import weakref
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from holter.recorder import imports
from holter.recorder.frameworks.torch_uses import COLLECTIVES
from holter.recorder.patches import followed
from holter.schema.phases import Phase

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from holter.recorder.frameworks.pytorch.stepping.adapter_state import AdapterState
    from holter.recorder.patches import Patches

FUNCTIONAL = "torch.distributed._functional_collectives"
_OF_FUNCTIONAL = (
    "all_gather_into_tensor_coalesced",
    "all_gather_single",
    "all_gather_single_coalesced",
    "all_gather_tensor",
    "all_reduce",
    "all_reduce_coalesced",
    "all_to_all_single",
    "broadcast",
    "permute_tensor",
    "reduce_scatter_single",
    "reduce_scatter_single_coalesced",
    "reduce_scatter_tensor",
    "reduce_scatter_tensor_coalesced",
)
_WAITS = {12: "send wait", 13: "recv wait", 14: "recv wait"}
"""Names of waits by what `Work` calls the type of its operation; all others are called `wait`."""
WATCHED_PARAMETERS = 4
"""Parameters of a DDP module whose gradients are timed: the first ones, whose gradients are ready last."""
_REDUCTIONS = ("all_reduce", "all_reduce_coalesced", "reduce_scatter")
"""Begins of the names of functions that reduce."""
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
        self._traces: Callable[[], bool] = lambda: False
        """Whether a compiler traces this call."""
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
        if (work := getattr(c10d, "Work", None)) is not None:
            patches.wrap(work, "wait", self._watch_work)
        imports.when_imported(FUNCTIONAL, lambda _: self._attach_functional(patches))
        ddp = self.adapter.torch.nn.parallel.DistributedDataParallel
        patches.after(ddp, "__init__", self._watch_gradients, self.breaker)
        timed, code = self.adapter.timed, self.adapter.code(Phase.COMMUNICATION, "sync_buffers")
        patches.wrap(ddp, "_sync_buffers", lambda original: timed(original, code, self.breaker, "waiting"))

    def _attach_functional(self, patches: Patches) -> None:
        try:
            module = sys.modules[FUNCTIONAL]
            self._traces = getattr(module, "_are_we_tracing", self._traces)
            for name in _OF_FUNCTIONAL:
                patches.wrap(module, name, self._watch_collective)
            timed, code = self.adapter.timed, self.adapter.code(Phase.COMMUNICATION, "wait_tensor")

            def watch_wait(original: Any) -> Any:
                return timed(original, code, self.breaker, "waiting", _size, lambda *_: self._traces())

            patches.wrap(module, "wait_tensor", watch_wait)
        except Exception as error:
            self.breaker.fault(error)

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
        reduces, exchanges = name.startswith(_REDUCTIONS), not name.endswith(_WITHOUT_TENSORS)

        def argument(what: str, args: tuple[Any, ...], kwargs: Mapping[str, object]) -> Any:
            place = places.get(what, len(args))
            return args[place] if len(args) > place else kwargs.get(what)

        def passes(args: tuple[Any, ...], kwargs: Mapping[str, object]) -> Any:
            if self._traces():  # sizes may be symbols, and a comparison of them would become a guard
                return True
            self.reductions += reduces
            self.exchanges += exchanges
            return argument("async_op", args, kwargs)

        def choose(args: tuple[Any, ...], kwargs: Mapping[str, object]) -> int:
            group = argument("group", args, kwargs)
            known = group is not None and not isinstance(group, list)  # a list of ranks, which is deprecated
            return self._code(name, _process_group(group), default) if known else default

        return self.adapter.timed(original, default, self.breaker, "waiting", _size, passes, choose)

    def _watch_work(self, original: Any) -> Any:
        """Time waits for operations that the training started earlier; collectives that wait do so inside."""
        default = self.adapter.code(Phase.COMMUNICATION, "wait")
        codes = {kind: self.adapter.code(Phase.COMMUNICATION, name) for kind, name in _WAITS.items()}

        def choose(args: tuple[Any, ...], _: Mapping[str, object]) -> int:
            kind = getattr(args[0], "_get_op_type", None)
            return default if kind is None else codes.get(int(kind()), default)

        return self.adapter.timed(original, default, self.breaker, "waiting", choose=choose)

    def _code(self, name: str, group: Any, default: int) -> int:
        """Return the code of a collective within a group; journal the ranks of a new group."""
        c10d = self.adapter.torch.distributed.distributed_c10d
        if group is c10d.GroupMember.WORLD:
            return default
        group_name = group if isinstance(group, str) else str(getattr(group, "group_name", id(group)))
        code = self._codes.get((name, group_name))
        if code is None:
            if not any(known == group_name for _, known in self._codes):
                found = c10d._resolve_process_group(group) if isinstance(group, str) else group
                ranks = c10d.get_process_group_ranks(found)
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


def _process_group(group: Any) -> Any:
    """Return the process group that a mesh, or a mesh and its dimension, stands for."""
    mesh, *dimension = group if isinstance(group, tuple) else (group,)
    return mesh.get_group(*dimension) if hasattr(mesh, "get_group") else mesh


def _size(args: tuple[Any, ...], kwargs: Mapping[str, object]) -> float:
    """Return the bytes of the largest argument; NaN without a tensor."""
    return max(map(_bytes, (*args, *kwargs.values())), default=0) or NAN


def _bytes(value: Any) -> int:
    """Return the bytes of a tensor or of a list of them; 0 for anything else."""
    if isinstance(value, (list, tuple)):
        return sum(map(_bytes, value))
    count, size = getattr(value, "numel", None), getattr(value, "element_size", None)
    return count() * size() if callable(count) and callable(size) else 0
