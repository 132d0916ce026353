"""Actions that follow issues, such as mails and webhooks; the contract is `Action.act`.

Each action is one file.

To add an action, add a file `my_action.py` with one frozen dataclass `MyAction(Action)`: options made by
`parameter`, each followed by its sentence, `check` for errors that show before training starts, and `act`.
The folder is the registry; installed packages add their actions under the entry point `holter.actions`.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field, fields
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar

from holter.actions._grammar import BadAction, folded, split
from holter.actions._secrets import Secrets
from holter.parameters import BadParameter, Parameter, by_name, checked, declared, nearest, parameter, plain
from holter.plugins import external, modules

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from holter.store.documents import Document
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
    "written",
]


class ActionFailed(Exception):  # noqa: N818 - its text is a result that is shown with the issue
    """The action failed, and another try would not help; the text gives the reason."""


class TryAgain(ActionFailed):
    """The action failed now; a later try may succeed."""

    def __init__(self, text: str, after_s: float | None = None) -> None:
        super().__init__(text)
        self.after_s = after_s
        """The least seconds to wait, if the other side gave them."""


@contextlib.contextmanager
def written(what: str) -> Iterator[None]:
    """Turn an error of the store into a later try."""
    try:
        yield
    except OSError as error:
        raise TryAgain(f"{what} cannot be written: {error}") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Occasion:
    """One issue of one job, for an action."""

    folder: JobFolder
    rule: str
    """The rule's name in this job."""
    issue: Document
    """The issue as `evaluations.json` holds it."""
    time: int
    """The time of the action, ns since the epoch."""
    id: str
    """The identifier of this action for this issue; the same for every try."""
    statuses: Mapping[str, str] = field(default_factory=dict)
    """The status of every rule of the job."""

    @property
    def over(self) -> bool:
        """Whether the job has ended."""
        return self.folder.manifest().get("end") is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How often an action acts."""

    cooldown_s: float = parameter(0.0, low=0, high=30 * 86_400)
    """The least time since it acted last."""
    dedupe_s: float = parameter(0.0, low=0, high=30 * 86_400)
    """The least time since it acted for the same rule."""
    max_per_run: int = parameter(20, low=1, high=100_000)
    """The most actions in the life of a job."""
    retries: int = parameter(3, low=0, high=10)
    """The most tries after a temporary failure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """The base class of actions. Its fields are its options; one object acts for all issues, in turn."""

    description: ClassVar[str] = ""
    """What it does, in one sentence."""
    also_called: ClassVar[tuple[str, ...]] = ()
    """Other names under which `find` returns it; `slack:format=slack` also sets an option."""
    needs_arming: ClassVar[bool] = False
    """Whether a configuration file must set `armed = true`; without it the action is a dry run."""
    limits: ClassVar[Limits] = Limits()
    """How often it acts, unless the order sets limits."""

    def __post_init__(self) -> None:
        for given in fields(self):
            value = getattr(self, given.name)
            if isinstance(value, str) and str(given.type).startswith("tuple"):
                value = tuple(one.strip() for one in value.strip("[]() ").split(",") if one.strip())
            try:
                value = checked(type(self), given.name, value)
            except BadParameter as error:
                raise BadAction(f"{self.name()}: {error}") from None
            object.__setattr__(self, given.name, value)

    def check(self, secrets: Secrets) -> None:
        """Refuse, before training starts, options that cannot work: a missing secret, a bad address.

        Raises:
            BadAction: The option or the variable is not valid; names it and what is valid.
        """

    def act(self, occasion: Occasion, secrets: Secrets) -> str:
        """Act, and return a short description of the result.

        Raises:
            TryAgain: A later try may succeed; it follows after growing pauses.
            ActionFailed: Another try would not help.
        """
        raise NotImplementedError

    @classmethod
    def name(cls) -> str:
        """Return its name as users write it: the class's name in lower case with underscores."""
        letters = ("_" + c.lower() if c.isupper() else c for c in cls.__name__)
        return "".join(letters).lstrip("_")

    @classmethod
    def of(cls, given: Mapping[str, object]) -> Action:
        """Make the action from options as a user writes them.

        Raises:
            BadAction: An unknown option, a missing one or a value out of range; names what is valid.
        """
        try:
            chosen = by_name(cls, given, f"action {cls.name()}", "option")
        except BadParameter as error:
            raise BadAction(str(error)) from None
        return cls(**chosen)

    @classmethod
    def parameters(cls) -> tuple[Parameter, ...]:
        """Return the declared options in their order."""
        action: Any = cls
        return declared(action)

    def values(self) -> dict[str, object]:
        """Return every option's value, as JSON can hold it; options hold names of secrets, and no secrets."""
        return {given.name: plain(getattr(self, given.name)) for given in fields(self)}


@cache
def catalogue() -> dict[str, type[Action]]:
    """Return all actions by name, sorted: those of this package, then those of installed packages.

    Raises:
        BadAction: A module in this folder without an action, or a plug-in that is not an action.
    """
    found: dict[str, type[Action]] = {}
    for name, module in modules(__name__).items():
        actions = [v for v in vars(module).values() if _is_action(v) and v.__module__ == module.__name__]
        if len(actions) != 1 or actions[0].name() != name:
            raise BadAction(f"{module.__name__} must hold one action with the name of the file")
        found[name] = actions[0]
    for name, value in external(__name__).items():
        if not _is_action(value):
            raise BadAction(f"plug-in {name!r} of {__name__} is not an action: {value!r}")
        found.setdefault(value.name(), value)
    return dict(sorted(found.items()))


def find(name: str) -> tuple[type[Action], dict[str, str]]:
    """Return the action called `name`, in any case and with or without underscores, and the options it sets.

    Raises:
        BadAction: An unknown name; names the nearest.
    """
    actions = catalogue()
    known: dict[str, tuple[type[Action], dict[str, str]]] = {
        folded(n): (action, {}) for n, action in actions.items()
    }
    for action in actions.values():
        for other, preset in map(split, action.also_called):
            known.setdefault(folded(other), (action, preset))
    if (found := known.get(folded(name))) is not None:
        return found
    near = nearest(folded(name), known)
    hint = f"did you mean {known[near][0].name()!r}? there are" if near else "there are"
    raise BadAction(f"no action {name!r}; {hint}: {', '.join(actions)}")


def _is_action(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, Action) and value is not Action
