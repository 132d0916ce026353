"""Records losses of evaluations: no backward pass begins from them, so the loss functions are wrapped.

They are wrapped from the first call of a model in evaluation mode to the next call in training mode, and
below `torch.nn.functional`, so that loss modules and functions imported by name are covered. They are not
wrapped once a compiler is in use, because it would trace the wrappers.
"""

from __future__ import annotations

import atexit
from functools import partial
from threading import get_ident
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from holter.recorder.frameworks.pytorch.compilers import is_observed, known_to_script
from holter.recorder.frameworks.pytorch.stepping.adapter_state import EVAL, PREDICT
from holter.recorder.frameworks.pytorch.stepping.loss_units import MEAN, SUM, LossUnits
from holter.recorder.frameworks.pytorch.tensors.arrivals import Arrivals
from holter.recorder.patches import Patches, followed
from holter.schema.phases import Phase

if TYPE_CHECKING:
    from collections.abc import Callable

    from holter.recorder.frameworks.pytorch.stepping.adapter_state import AdapterState
    from holter.recorder.frameworks.pytorch.stepping.roots import Roots

_SCALAR = int(Phase.SCALAR)
_BENEATH = {
    "cross_entropy_loss": 3,
    "nll_loss_nd": 3,
    "binary_cross_entropy": 3,
    "mse_loss": 2,
    "l1_loss": 2,
    "smooth_l1_loss": 2,
    "huber_loss": 2,
    "soft_margin_loss": None,
    "multi_margin_loss": None,
    "multilabel_margin_loss": None,
}
"""Functions of `torch._C._nn` → position of the argument `reduction`, if their mean is over all elements or
targets."""
_ABOVE = {
    "binary_cross_entropy_with_logits": 4,
    "kl_div": None,
    "ctc_loss": None,
    "poisson_nll_loss": None,
    "margin_ranking_loss": None,
    "hinge_embedding_loss": None,
    "cosine_embedding_loss": None,
    "triplet_margin_loss": None,
}
"""The same for functions of `torch`."""
_REDUCTION_AT = {name.removesuffix("_nd"): at for name, at in {**_BENEATH, **_ABOVE}.items()}
_MAX_LOSSES = 64
"""Losses of one pass that are kept."""
_OF_TARGETS = ("cross_entropy_loss", "nll_loss")
_UNITS = {MEAN: "mean", SUM: "sum"}


class Evaluations:
    """Wraps loss functions while a model evaluates; writes the losses of a pass when the next one begins."""

    def __init__(self, adapter: AdapterState, roots: Roots, units: LossUnits) -> None:
        self.adapter = adapter
        self._units = units
        self.breaker = adapter.breaker("evaluation")
        self._roots = roots
        self._patches = Patches()
        self._wrapped = False
        self._arrivals = Arrivals(adapter)
        self._watchers: dict[Any, Callable[..., Any]] = {}
        """Wrappers by original function; they stay alive, because TorchScript knows functions by address."""
        self._thread = 0
        """The thread that evaluates; 0 outside of an evaluation."""
        self._listener: Callable[[], None] | None = None

    def attach(self, patches: Patches) -> None:
        """Watch for models that change between training and evaluation."""
        self._roots.on_evaluation.append(self._turn)
        atexit.register(self._finish)
        patches.later(self.detach)

    def detach(self) -> None:
        """Remove everything."""
        atexit.unregister(self._finish)
        self._roots.on_evaluation.remove(self._turn)
        self._listener = None
        self._stop()
        self._finish()

    def _turn(self, evaluates: bool) -> None:
        """Wrap or unwrap the loss functions before a call of a model."""
        if self.adapter.evaluated:
            self._write_losses()
        if evaluates and not self._roots.compiled:
            self._wrap()
            self._thread = get_ident()
        elif self._wrapped:
            self._stop()

    def listen(self, call: Callable[[], None] | None) -> None:
        """Call `call` after each function that computes a loss, until this is called with None."""
        self._listener = call
        if call is not None:
            self._wrap()
        elif not self._thread:
            self._stop()

    def _wrap(self) -> None:
        if self._wrapped:
            return
        self._wrapped = True
        torch = self.adapter.torch
        for owner, names in ((torch._C._nn, _BENEATH), (torch, _ABOVE)):
            for name in names:
                self._patches.wrap(owner, name, self._watch)

    def _stop(self) -> None:
        self._thread = 0
        if self._listener is None or self._roots.compiled:
            self._wrapped = False
            self._patches.undo()

    def _watch(self, original: Any) -> Callable[..., Any]:
        if original not in self._watchers:
            self._watchers[original] = ours = self._watcher(original)
            known_to_script(self.adapter.torch, ours, original)
        return self._watchers[original]

    def _watcher(self, original: Any) -> Callable[..., Any]:
        name = original.__name__.removesuffix("_nd")
        return followed(original, lambda result, *args, **_: self._keep(name, result, args), self.breaker)

    def _keep(self, name: str, result: Any, args: tuple[Any, ...]) -> None:
        """Keep a loss, if it is a single number that the script itself computes."""
        adapter = self.adapter
        torch = adapter.torch
        if (self._thread != get_ident() and self._listener is None) or adapter.is_compiling():
            return
        # Under tracing or a transform, reading the tensor would become part of the trace.
        if type(result) is not torch.Tensor or adapter.states.current.backward or is_observed(torch._C):
            return
        if result.numel() != 1 or not result.is_floating_point():
            return
        if self._listener is not None:
            self._listener()
        if self._thread != get_ident():
            return
        if adapter.on_eval_loss is not None:
            adapter.on_eval_loss(result)
        if self._are_logged():  # now: a trainer reports those of its own evaluations only
            return
        if len(adapter.evaluated) < _MAX_LOSSES and result.device.type in ("cpu", "cuda"):
            value, name = self._in_unit(name, result.detach(), args)
            value = value.item() if value.is_cpu else value
            adapter.evaluated.append((perf_counter_ns(), adapter.session.step, name, value))

    def _in_unit(self, name: str, loss: Any, args: tuple[Any, ...]) -> tuple[Any, str]:
        """Convert a loss to the unit of the training loss; if impossible, add its unit to its name."""
        state, trained = _REDUCTION_AT.get(name), self._units.reduction
        reduction = args[state] if state is not None and state < len(args) else 0
        if reduction not in _UNITS or reduction == trained or (reduction == MEAN and not trained):
            return loss, name
        inputs, target, weight = args[0], args[1], args[2] if state is not None and state > 2 else None
        of_targets = name in _OF_TARGETS
        if trained != MEAN or weight is not None or (of_targets and target.is_floating_point()):
            return loss, f"{name} ({_UNITS[reduction]})"
        ignored = args[4] if of_targets and len(args) > 4 else None
        with self.adapter.torch.no_grad():
            count = inputs.numel() if not of_targets else (target != ignored).sum().clamp(min=1)
            return loss / count, name

    def _are_logged(self) -> bool:
        """Whether the script or a trainer reports losses itself."""
        return any("loss" in name for name in self.adapter.session.logged_names)

    def _write_losses(self) -> None:
        """Write the losses of a pass: a single one as `loss`, several by their functions.

        A loss in another unit than the training loss always has its function and unit in its name.
        """
        adapter = self.adapter
        losses, adapter.evaluated = adapter.evaluated, []
        if self._are_logged():
            return
        mode = PREDICT if self.adapter.predicting else EVAL
        for when, step, function, value in losses:
            alone = len(losses) == 1 and not function.endswith(")")
            name = adapter.session.name("loss" if alone else f"loss/{function}")
            if isinstance(value, float):
                self._write(name, when, step, mode, value)
            elif not self._arrivals.crowded and not adapter.torch.cuda.is_current_stream_capturing():
                self._arrivals.later(value.double().reshape(1), partial(self._write, name, when, step, mode))
                self._arrivals.send()

    def _write(self, name: int, when: int, step: int, mode: int, value: Any) -> None:
        self.adapter.states.current.add(_SCALAR, name, when, 0, float(value), step, mode)

    def _finish(self) -> None:
        """Write the remaining losses at the end of the script."""
        try:
            if self.adapter.evaluated:
                self._write_losses()
            self._arrivals.finish()
        except Exception as error:
            self.breaker.fault(error)
