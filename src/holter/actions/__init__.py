"""Act on what rules find: one action, one file; its contract is `Action.act`, from an occasion to a sentence.

To add an action, add a file `my_action.py` with one frozen dataclass `MyAction(Action)`: options made by
`parameter`, each followed by its sentence, `check` for what can be known before training starts, and `act`.
The folder is the registry; installed packages add theirs under the entry point `holter.actions`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar

from holter.actions._grammar import BadAction, split
from holter.actions._secrets import Secrets
from holter.parameters import checked, declared, nearest, plain
from holter.plugins import external, modules
from holter.rules import BadRule, Parameter, parameter

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holter.store.job import JobFolder

__all__ = [
    "Action",
    "ActionFailed",
    "BadAction",
    "Limits",
    "Occasion",
    "Parameter",
    "Secrets",
    "TryAgain",
    "catalogue",
    "find",
    "parameter",
]


class ActionFailed(Exception):  # noqa: N818 - what became of it, told with the issue
    """It could not be done, and trying again would not help; the text says why."""


class TryAgain(ActionFailed):
    """It could not be done now; later it may."""

    def __init__(self, text: str, after_s: float | None = None) -> None:
        super().__init__(text)
        self.after_s = after_s
        """How long to wait at least, where the other side said so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Occasion:
    """One issue of one job, to be acted on."""

    folder: JobFolder
    rule: str
    """The rule's name in this job."""
    issue: Mapping[str, Any]
    """The issue as `evaluations.json` holds it."""
    time: int
    """When it is acted on, ns since the epoch."""
    id: str
    """The same whenever this action is tried again for this issue."""
    statuses: Mapping[str, str] = field(default_factory=dict)
    """The status of every rule of the job."""

    @property
    def over(self) -> bool:
        """Whether the job has ended."""
        return self.folder.manifest().get("end") is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How often an action acts."""

    cooldown_s: float = 0.0
    """Time that must have passed since it acted last."""
    dedupe_s: float = 0.0
    """Time that must have passed since it acted for the same rule."""
    max_per_run: int = 20
    """How often it acts in the life of a job."""
    retries: int = 3
    """How often it tries again what may be temporary."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """What every action declares. It is its options; the same object acts for every issue, one at a time."""

    description: ClassVar[str] = ""
    """What it does, in one sentence."""
    also_called: ClassVar[tuple[str, ...]] = ()
    """Other names under which it is found; `slack:format=slack` is one that means an option."""
    needs_arming: ClassVar[bool] = False
    """Whether a configuration file must say `armed = true` before it does more than say what it would do."""
    limits: ClassVar[Limits] = Limits()
    """How often it acts, where the order does not say."""

    def __post_init__(self) -> None:
        for given in fields(self):
            value = getattr(self, given.name)
            if isinstance(value, str) and str(given.type).startswith("tuple"):
                value = tuple(one.strip() for one in value.strip("[]() ").split(",") if one.strip())
            try:
                value = checked(type(self), given.name, value)
            except BadRule as error:
                text = str(error).removeprefix(type(self).__name__)
                raise BadAction(f"{self.name()}{text}") from None
            object.__setattr__(self, given.name, value)

    def check(self, secrets: Secrets) -> None:
        """Refuse, before training starts, what cannot work here: a secret that is missing, a bad address.

        Raises:
            BadAction: naming the option or the variable, and what is valid.
        """

    def act(self, occasion: Occasion, secrets: Secrets) -> str:
        """Do it; returns what was done, in a few words.

        Raises:
            TryAgain: It may work later; it is tried again with growing pauses.
            ActionFailed: It cannot work.
        """
        raise NotImplementedError

    @classmethod
    def name(cls) -> str:
        """Return its name as users write it: that of its class, in lower case with underscores."""
        letters = ("_" + c.lower() if c.isupper() else c for c in cls.__name__)
        return "".join(letters).lstrip("_")

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Action:
        """Make the action from options as a user writes them.

        Raises:
            BadAction: An unknown option, a missing one or a value out of range; names what is valid.
        """
        names = {option.name: option.name for option in cls.parameters()}
        names |= {alias: option.name for option in cls.parameters() for alias in option.aliases}
        chosen: dict[str, Any] = {}
        for name, value in given.items():
            if name not in names:
                near = nearest(name, names)
                hint = f"did you mean {near!r}? it" if near else "it"
                valid = ", ".join(option.name for option in cls.parameters()) or "none"
                raise BadAction(f"action {cls.name()} has no option {name!r}; {hint} has: {valid}")
            if names[name] in chosen:
                raise BadAction(f"action {cls.name()}: option {names[name]!r} is given twice")
            chosen[names[name]] = value
        return cls(**chosen)

    @classmethod
    def parameters(cls) -> tuple[Parameter, ...]:
        """Return the declared options in their order."""
        action: Any = cls
        return declared(action)

    def values(self) -> dict[str, Any]:
        """Return every option's value, as JSON can hold it. Secrets are not among them, only their names."""
        return {given.name: plain(getattr(self, given.name)) for given in fields(self)}


@cache
def catalogue() -> dict[str, type[Action]]:
    """Return every action there is by its name, sorted; ours first, then those of installed packages.

    Raises:
        BadAction: A module of the shelf without an action, or a stranger that is none.
    """
    found: dict[str, type[Action]] = {}
    for name, module in modules(__name__).items():
        actions = [v for v in vars(module).values() if _is_action(v) and v.__module__ == module.__name__]
        if len(actions) != 1 or actions[0].name() != name:
            raise BadAction(f"{module.__name__} must hold one action, called as the file is")
        found[name] = actions[0]
    for name, value in external(__name__).items():
        if not _is_action(value):
            raise BadAction(f"plug-in {name!r} of {__name__} is no action: {value!r}")
        found.setdefault(value.name(), value)
    return dict(sorted(found.items()))


def find(name: str) -> tuple[type[Action], dict[str, Any]]:
    """Return the action called `name`, in any case and with or without underscores, and what that name means.

    Raises:
        BadAction: There is none; names the nearest.
    """
    actions = catalogue()
    known: dict[str, tuple[type[Action], dict[str, Any]]] = {
        _folded(n): (action, {}) for n, action in actions.items()
    }
    for action in actions.values():
        for other, preset in map(split, action.also_called):
            known.setdefault(_folded(other), (action, preset))
    if (found := known.get(_folded(name))) is not None:
        return found
    near = nearest(_folded(name), known)
    hint = f"did you mean {known[near][0].name()!r}? there are" if near else "there are"
    raise BadAction(f"no action {name!r}; {hint}: {', '.join(actions)}")


def _is_action(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, Action) and value is not Action


def _folded(name: str) -> str:
    return name.replace("_", "").replace("-", "").casefold()
