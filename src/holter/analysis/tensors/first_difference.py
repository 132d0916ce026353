"""Finds the first difference between two runs of one training that round-off does not explain.

Round-off arises everywhere, at the size of the type's precision, and grows from tensor to tensor and from
step to step. So a difference is too large if it is far above all differences that come before it in the order
of computation. A third run that differs from the first one in round-off only shows where round-off is larger
than this estimate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from holter.analysis.tensors.differences import EPSILON
from holter.analysis.tensors.execution_order import Stage, TensorPlace

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from holter.analysis.tensors.differences import Why

Outcome = Literal["identical", "round_off", "different", "unclear", "nothing"]
Key = tuple[int, str, int, str, str]
"""Step, mode, rank, name, and by what a tensor was compared."""

ACCUMULATED = 16 * EPSILON["float32"]
"""Round-off of one operation, relative to its result: sums of many terms are in float32 or better."""
GROWTH = 16.0
"""Largest growth of a difference from one tensor to the next."""
BACKWARD = 32.0
"""The same for gradients, whose terms cancel over a batch."""
_GRADIENTS = 4.0
_TURNED = 3.0
"""Standard deviations of one term in a gradient: a ReLU whose input is near 0 lets it pass or not."""
_PER_STEP = 4.0
"""Growth for each step that was not compared, up to which a difference may be round-off."""
_PERTURBED = 10.0
"""Largest ratio to the differences of the perturbed run."""
_EXACT = 1e-6
"""Relative difference of numbers that the script sets, such as the learning rate."""
_NOISE = 64 * EPSILON["float32"]
"""A gradient that is smaller than those of its module by this factor is round-off of a sum that is 0."""


@dataclass(slots=True)
class Observation:
    """One tensor, number or fingerprint at one step in both jobs."""

    step: int
    mode: str
    rank: int
    name: str
    role: str
    place: TensorPlace
    by: str
    """`elements`, `statistics`, `fingerprint` or `number`."""
    same: bool
    apart: float
    """Relative difference; NaN if it is only known that the elements differ."""
    before: float = math.nan
    """The number, or the root mean square of the tensor."""
    after: float = math.nan
    why: Why = ""
    types: tuple[str, str] = ("", "")
    moved: float = 0.0
    """Size of the change of a parameter since its last row, relative to the parameter."""
    role_after: str = ""
    noise: bool = False
    """Whether the gradient of this parameter, or of one of this module, is round-off only."""

    @property
    def key(self) -> Key:
        """What another pair of jobs calls the same thing."""
        return self.step, self.mode, self.rank, self.name, self.by

    @property
    def sized(self) -> bool:
        """Whether the size of the difference is known."""
        return not math.isnan(self.apart)


class Level(NamedTuple):
    """The largest difference of a step."""

    step: int
    apart: float
    name: str


@dataclass(slots=True)
class FirstDifference:
    """What a comparison of two runs found."""

    outcome: Outcome = "nothing"
    first: Observation | None = None
    """The first difference beyond the tolerance, or, if `unclear`, the first that round-off may explain."""
    tolerance: float = math.nan
    bits: Observation | None = None
    """The first difference of any size."""
    beyond: tuple[Observation, ...] = ()
    """Further differences of the same step beyond their tolerances, in the order of computation."""
    agreeing: tuple[Observation, ...] = ()
    """What comes before the first difference in the same step."""
    levels: tuple[Level, ...] = ()
    """Of each compared step, within the tolerance."""
    noise: tuple[str, ...] = ()
    """Parameters whose gradients are round-off only."""


class Noise:
    """The differences of a perturbed run from the first one, which round-off explains."""

    def __init__(self, observations: Iterable[Observation]) -> None:
        self._own: dict[Key, float] = {}
        grouped: dict[tuple[int, Stage], list[float]] = {}
        for one in observations:
            if one.sized and math.isfinite(one.apart):
                self._own[one.key] = one.apart
                grouped.setdefault((one.step, one.place.stage), []).append(one.apart)
        self._usual = {group: float(np.median(found)) for group, found in grouped.items()}
        self.silent = not any(self._own.values())
        """Whether the perturbed run equals the first one, so that it shows no round-off."""

    def limit(self, one: Observation) -> float | None:
        """Return the tolerance of a tensor; None if the perturbed run lacks it, or shows no round-off."""
        own = self._own.get(one.key)
        if own is None or self.silent:
            return None
        usual = self._usual[one.step, one.place.stage]
        return _PERTURBED * max(own, usual)


class Search:
    """Looks through the steps in their order; after a difference beyond the tolerance it needs no further."""

    def __init__(self, *, depth: int, spacing: float, elements: int, noise: Noise | None = None) -> None:
        """Begin before the first step.

        Args:
            depth: Number of modules of the model.
            spacing: Modules between two compared tensors of the forward pass.
            elements: Elements of the largest tensor of the forward pass.
            noise: What a perturbed run shows.
        """
        self.found = FirstDifference()
        self._depth, self._spacing, self._noise = max(depth, 1), max(spacing, 1.0), noise
        self._turned = _TURNED / math.sqrt(max(elements, 1))
        self._model = self._gradient = 0.0
        self._forward_equal = False
        """Whether tensors of the forward pass were compared, and are equal: then no term is turned."""
        self._last = 0
        self._sized = False
        self._free: set[str] = set()
        self._levels: list[Level] = []

    def step(self, observations: Sequence[Observation]) -> bool:
        """Take the observations of the next step, in the order of computation; returns whether to go on."""
        found = self.found
        gap, before = observations[0].step - self._last, found.first
        beyond: list[Observation] = []
        clear = False
        largest = Level(observations[0].step, 0.0, "")
        for at, one in enumerate(observations):
            self._sized |= one.sized
            if found.bits is None and not one.same:
                found.bits = one
            if one.noise and one.place.stage is Stage.GRADIENT:
                self._free.add(one.place.parameter)
            free = self._is_free(one)
            measured = None if self._noise is None else self._noise.limit(one)
            limit = max(self._limit(one), measured or 0.0)
            too_large = one.apart > limit and not free
            if one.place.stage is Stage.DATA and not one.sized:
                too_large = True
            if not too_large:
                self._accept(one, free=free)
                if one.sized and one.apart > largest.apart and not free:
                    largest = Level(one.step, one.apart, one.name)
                continue
            beyond.append(one)
            certain = measured is not None or _certain(one, limit, gap)
            if not clear and (certain or found.first is None):
                found.first, found.tolerance = one, limit
                found.agreeing = tuple(observations[:at])
            if not clear and not certain:
                self._accept(one, free=False)  # what follows from it is no surprise
            clear = clear or certain
        if any(map(_shows_round_off, observations)):
            self._levels.append(largest)
            self._last = largest.step
        found.levels, found.noise = tuple(self._levels), tuple(sorted(self._free))
        if clear or (found.first is not None and before is None):
            found.beyond = tuple(one for one in beyond if one is not found.first)
        found.outcome = self._outcome(clear=clear)
        return not clear

    def _outcome(self, *, clear: bool) -> Outcome:
        found = self.found
        if clear:
            return "different"
        if found.first is not None or not (self._sized or found.bits is None):
            return "unclear"
        return "identical" if found.bits is None else "round_off"

    def _limit(self, one: Observation) -> float:
        """Estimate the largest difference that round-off makes."""
        least, stage = self._least(one), one.place.stage
        if stage is Stage.DATA or one.name == "lr":
            return least
        if _is_gradient(one):
            if self._forward_equal:
                return max(least, BACKWARD * self._gradient)
            turned = max(self._turned, _random_signs(self._model))
            return max(least, turned, BACKWARD * max(self._model, self._gradient))
        if stage is Stage.STATE:
            # Adam divides a gradient by its size: of the elements near 0, round-off decides the sign.
            return max(least, GROWTH * self._model, one.moved * _random_signs(self._gradient))
        return max(least, GROWTH * self._model)

    def _least(self, one: Observation) -> float:
        """Return the round-off of the operations since the last compared tensor."""
        if one.name == "lr":
            return _EXACT
        coarse = max((EPSILON.get(kind, 0.0) for kind in one.types), default=0.0)
        base = ACCUMULATED + 2 * (coarse or EPSILON["float32"])
        if one.types == ("float64", "float64"):
            base = 18 * EPSILON["float64"]
        if _is_gradient(one):
            return _GRADIENTS * base * math.sqrt(2 * self._depth)
        return base * (1.0 if one.place.stage in (Stage.DATA, Stage.STATE) else math.sqrt(self._spacing))

    def _is_free(self, one: Observation) -> bool:
        """Return whether a parameter with a gradient of round-off explains the difference."""
        place = one.place
        if place.parameter:
            return place.parameter in self._free
        return place.stage is Stage.FORWARD and any(
            parameter.rpartition(".")[0] == place.module for parameter in self._free
        )

    def _accept(self, one: Observation, *, free: bool) -> None:
        if not one.sized or not math.isfinite(one.apart):
            return
        stage = one.place.stage
        if stage is Stage.FORWARD:
            self._forward_equal = not self._model and not one.apart
        if _is_gradient(one):
            if not free:
                self._gradient = max(self._gradient, one.apart)
        elif not (free and stage is Stage.STATE):
            self._model = max(self._model, one.apart)


def _certain(one: Observation, limit: float, gap: int) -> bool:
    """Return whether a difference cannot be round-off that grew in steps that were not compared."""
    if gap <= 1 or not _shows_round_off(one):
        return True
    return one.apart > limit * _PER_STEP ** min(gap, 400)


def _is_gradient(one: Observation) -> bool:
    return one.place.stage in (Stage.GRADIENT, Stage.UPDATE) or one.place.kind == "optimizer"


def _random_signs(apart: float) -> float:
    """Return the relative difference of a tensor if round-off decides the signs of its terms near 0.

    Of terms with a relative difference d, about the share d is that close to 0: so is their sum of squares.
    """
    return min(2.0, 4.0 * math.sqrt(max(apart, EPSILON["float32"])))


def _shows_round_off(one: Observation) -> bool:
    return one.sized and one.place.stage is not Stage.DATA and one.name != "lr"


def is_noise(gradient: float, of_module: float) -> bool:
    """Return whether a gradient is round-off: tiny against the largest gradient of its module."""
    return 0 < gradient < _NOISE * of_module


def largest_of_modules(sizes: Mapping[int, float], places: Sequence[TensorPlace]) -> dict[int, float]:
    """Return for each tensor the size of the largest one of its module and stage.

    Args:
        sizes: Sizes by position in `places`.
        places: The places of tensors of one step.
    """
    largest: dict[tuple[Stage, str, str], float] = {}
    for at, size in sizes.items():
        group = places[at].stage, places[at].module, places[at].kind
        largest[group] = max(largest.get(group, 0.0), size)
    return {at: largest[places[at].stage, places[at].module, places[at].kind] for at in sizes}
