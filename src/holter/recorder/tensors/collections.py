"""Collections: named sets of tensors, what is kept of them, and their schedules."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from holter.recorder.tensors.schedule import MODES, Schedule

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

STATISTICS = ("statistics", "quantiles", "delta", "fingerprint")
"""Contents of a row besides counts: moments, quantiles, the change since the last row, a hash."""
EACH = "each"
"""Option for quantiles and hashes in each row of parameters and gradients."""
KEPT = ("histogram", "exponents", "raw", "values", "shape", "active", "abs_min", "prod")
"""Values that can be kept in addition to a row of statistics."""
EVERYTHING = "everything"

SOURCES = {
    "weights": ("parameter",),
    "biases": ("parameter",),
    "gradients": ("gradient",),
    "losses": ("loss",),
    "inputs": ("input",),
    "outputs": ("output",),
    "activations": ("input", "output"),
    "layers": ("input", "output"),
    "optimizer_state": ("optimizer_state",),
    "buffers": ("buffer",),
    "labels": ("labels",),
    "predictions": ("predictions",),
    "feature_importance": ("feature_importance",),
    "trees": ("trees",),
    "average_shap": ("average_shap",),
    "full_shap": ("full_shap",),
    "all": ("parameter", "buffer", "gradient", "loss", "input", "output", "optimizer_state", "custom"),
    "default": ("custom",),
}
"""Predefined collections → the kinds of tensors in each."""
AT_END = ("average_shap", "full_shap")
"""Kinds that libraries of trees offer once, at the end of a training, whatever the schedule."""
OF_TREES = ("labels", "predictions", "feature_importance", "trees", *AT_END)
"""Kinds that libraries of trees offer; the name of a tensor that a script saves begins with its kind."""
KINDS = SOURCES["all"]
ROLES = (
    *("weight", "bias", "norm_param", "embedding", "buffer", "grad", "opt_state", "act_in", "act_out"),
    *("input", "output", "model_input", "token_ids", "logits", "predictions", "labels", "loss", "metric"),
    "custom",
)
"""Roles of tensors; some have a detail after a colon, such as `act_out:relu`."""


@dataclass(frozen=True)
class TensorInfo:
    """Describes a tensor without its values: `kind` is its source, `role` its purpose."""

    name: str
    kind: str
    role: str
    root: bool = False
    """Whether it is an input or output of the model itself."""


@dataclass(frozen=True)
class Collection:
    """A named set of tensors, described by regular expressions or roles unless it is in `SOURCES`."""

    name: str
    include_regex: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()
    schedules: Mapping[str, Schedule] = field(default_factory=dict)
    """By mode; modes that are absent are not saved."""
    statistics: tuple[str, ...] = STATISTICS
    kept: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        """Raise `ValueError` for an invalid regex, an unknown role, and an empty description."""
        for role in self.roles:
            check_role(role)
        for pattern in self.include_regex:
            try:
                re.compile(pattern)
            except re.error as error:
                raise ValueError(
                    f"collection {self.name!r}: {pattern!r} is no regular expression: {error}"
                ) from None
        if self.name not in SOURCES and not (self.include_regex or self.roles):
            raise ValueError(
                f"collection {self.name!r} describes no tensors; it needs a regex or a role,"
                f" or is one of: {', '.join(SOURCES)}"
            )

    @cached_property
    def sources(self) -> frozenset[str]:
        """Kinds of tensors that may belong to it."""
        if self.include_regex or self.name in OF_TREES or (self.roles and self.name not in SOURCES):
            return frozenset(KINDS)
        return frozenset(SOURCES[self.name])

    @cached_property
    def _patterns(self) -> tuple[re.Pattern[str], ...]:
        return tuple(re.compile(pattern) for pattern in self.include_regex)

    def holds(self, tensor: TensorInfo) -> bool:
        """Whether a tensor belongs to it."""
        if any(pattern.search(tensor.name) for pattern in self._patterns):
            return True
        if any(tensor.role == role or tensor.role.startswith(role + ":") for role in self.roles):
            return True
        if self.name in OF_TREES and not self.roles:
            return self.name in (tensor.kind, tensor.role, tensor.name.partition("/")[0])
        if self.name not in SOURCES or tensor.kind not in SOURCES[self.name] or self.roles:
            return False
        if self.name == "weights":
            return not is_bias(tensor.name)
        if self.name == "biases":
            return is_bias(tensor.name)
        if self.name in ("inputs", "outputs"):
            return tensor.root
        if self.name == "activations":
            return tensor.role.startswith(("act_in:", "act_out:"))
        return self.name != "default" or not self.include_regex

    def due(self, mode: str, step: int, stride: int = 1) -> bool:
        """Whether it is saved at a step of a mode, or at any of the `stride` steps that run in one call."""
        schedule = self.schedules.get(mode)
        return schedule is not None and (self.name in AT_END or schedule.due(step, stride))

    def to_json(self) -> dict[str, object]:
        """Return its entry in `tensors.json`, without its tensors."""
        return {
            "include_regex": list(self.include_regex),
            "roles": list(self.roles),
            "schedule": {mode: schedule.to_json() for mode, schedule in self.schedules.items()},
            "statistics": list(self.statistics),
            **{name: name in self.kept for name in KEPT},
        }

    @classmethod
    def from_json(cls, name: str, given: Mapping[str, Any]) -> Collection:
        """Read the result of `to_json`; raises `ValueError` or `TypeError` for invalid values."""
        unknown = [mode for mode in given.get("schedule", {}) if mode not in MODES]
        if unknown:
            raise ValueError(f"collection {name!r}: no mode {unknown[0]!r}; there are: {', '.join(MODES)}")
        return cls(
            name,
            tuple(given.get("include_regex", ())),
            tuple(given.get("roles", ())),
            {mode: Schedule.from_json(one) for mode, one in given.get("schedule", {}).items()},
            tuple(given.get("statistics", STATISTICS)),
            frozenset(kind for kind in KEPT if given.get(kind)),
        )


def is_bias(name: str) -> bool:
    """Whether a parameter of this name is a bias."""
    return "bias" in name.rpartition(".")[2]


def check_role(role: str) -> None:
    """Raise `ValueError` for a role that is not in `ROLES`; the text after a colon is free."""
    kind = role.partition(":")[0]
    if kind not in ROLES:
        raise ValueError(f"no role {role!r}{nearest(kind, ROLES)}; there are: {', '.join(ROLES)}")


def nearest(word: str, valid: Iterable[str]) -> str:
    """Return a hint to the most similar valid word, for an error message; empty without one."""
    near = difflib.get_close_matches(word, list(valid), n=1, cutoff=0.5)
    return f" (did you mean {near[0]!r}?)" if near else ""
