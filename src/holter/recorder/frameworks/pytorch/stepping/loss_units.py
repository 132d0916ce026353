"""Finds the unit of a training's losses: the reduction of the loss function, and a division of its result.

A step may accumulate gradients over several micro-batches. Scripts and trainers then divide the loss of each
micro-batch before its backward pass, so that the gradients add up to a mean. The loss of the step is the mean
of the undivided losses, so the recorder undoes a division in two cases:

* The divisor is constant and equals the number of backward passes between two optimizer steps.
* The loss function sums over targets, and the divisor is larger than the number of targets in the batch.

Any other division belongs to the script: a sum over a batch divided by its size is the mean of that batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from holter.recorder.frameworks.pytorch.stepping.adapter_state import AdapterState

GROUPS = 8
"""Groups of passes without a common divisor after which the losses of a training count as undivided."""
_MAX_GROUP = 1024
"""Passes in one group at most."""
MEAN, SUM = 1, 2
"""The numbers of reductions in `torch.nn.functional`."""
_REDUCED = {"MeanBackward0": MEAN, "SumBackward0": SUM}


class LossUnits:
    """Examines the first losses of a training, and all losses when the training divides them."""

    def __init__(self, adapter: AdapterState) -> None:
        self.adapter = adapter
        self.watches = True
        """Whether losses are examined; false once it is known that the training does not divide them."""
        self.reduction = 0
        """Reduction of the training loss: `MEAN`, `SUM`, or 0 if unknown."""
        self.divisor = 0
        """Number of micro-batches of a step, once a division by it was seen."""
        self._group: list[int] = []
        """Divisors of the passes since the last optimizer step; 1 for an undivided loss."""
        self._group_at = 0
        self._groups = 0
        self._of_targets = False
        self._held: list[tuple[float, int, Callable[[float], None]]] = []

    def look(self, loss: Any) -> tuple[Any, int]:
        """Return the loss, not divided by the targets of all micro-batches, and its constant divisor."""
        node = loss.grad_fn
        inner, other = _divided(node)
        reduction = getattr(inner, "_saved_reduction", 0) or _REDUCED.get(type(inner).__name__, 0)
        if other is None:
            self.reduction = reduction
            return loss.detach(), 1
        if reduction == SUM:
            self.reduction = 0
            if type(inner).__name__.startswith("NllLoss") and type(node).__name__ == "DivBackward0":
                return self._mean_of_targets(loss.detach(), other, inner._saved_total_weight), 1
            return loss.detach(), 1
        self.reduction = reduction
        constant = float(other) if other.is_cpu else 1.0
        if type(node).__name__ == "MulBackward0":
            constant = 1 / constant if constant else 1.0
        whole = round(constant) if 1.5 < constant < _MAX_GROUP else 1
        return loss.detach(), whole if abs(constant - whole) < 1e-4 * whole else 1

    def _mean_of_targets(self, loss: Any, divisor: Any, targets: Any) -> Any:
        """Return the mean over targets, if the divisor exceeds their number. Reads nothing from a device."""
        torch = self.adapter.torch
        if loss.is_cpu:
            if not 0 < float(targets) <= float(divisor):
                return loss
            self._of_targets = self._of_targets or float(targets) < float(divisor)
        else:
            self._of_targets = True
        self.reduction = MEAN
        with torch.no_grad():
            return torch.where(divisor > targets, loss * divisor / targets.clamp(min=1), loss)

    def passed(self, divisor: int) -> None:
        """Note that a backward pass begins from a loss with this divisor."""
        steps = self.adapter.inner_steps
        if steps != self._group_at or len(self._group) >= _MAX_GROUP:
            self._judge()
            self._group_at = steps
        self._group.append(divisor)

    def _judge(self) -> None:
        """Examine the divisors of the group that has ended."""
        group, self._group = self._group, []
        if not group or self.divisor:
            return
        self._groups += 1
        if len(group) > 1 and set(group) == {len(group)}:
            self.divisor = len(group)
        elif self._groups < GROUPS:
            return
        self.watches = self._of_targets or self.divisor > 1
        self.finish()

    def report(self, value: float, divisor: int, write: Callable[[float], None]) -> None:
        """Write the undivided loss, now or once the number of micro-batches is known."""
        if divisor > 1 and self.watches and not self.divisor:
            self._held.append((value, divisor, write))
        else:
            write(self.undivided(value, divisor))

    def undivided(self, value: float, divisor: int) -> float:
        """Undo a division by the number of micro-batches."""
        return value * divisor if divisor == self.divisor else value

    def finish(self) -> None:
        """Write the losses that wait."""
        held, self._held = self._held, []
        for value, divisor, write in held:
            write(self.undivided(value, divisor))

    def close(self) -> None:
        """Write the losses that wait at the end of the training."""
        if self.adapter.inner_steps != self._group_at:
            self._judge()
        self.finish()


def _divided(node: Any) -> tuple[Any, Any]:
    """Return the node of the undivided loss, and the divisor; None for a loss that was not divided."""
    if type(node).__name__ not in ("DivBackward0", "MulBackward0"):
        return node, None
    before = [function for function, _ in node.next_functions if function is not None]
    other = getattr(node, "_saved_other", None)
    if len(before) != 1 or other is None or other.numel() != 1:
        return node, None
    return before[0], other
