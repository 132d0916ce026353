"""The actions of `sagemaker.debugger`, as values that say what they are in holter's own words."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from holter.actions._grammar import upstream
from holter.actions._orders import choose

if TYPE_CHECKING:
    from holter.actions import Action


@dataclass(frozen=True)
class StopTraining:
    """Stop the job, or the one whose name begins with the prefix."""

    training_job_prefix: str | None = None

    def serialize(self) -> dict[str, str]:
        """Return it as upstream's `action_json` holds it."""
        prefix = {"training_job_prefix": self.training_job_prefix} if self.training_job_prefix else {}
        return {"name": "stoptraining", **prefix}


@dataclass(frozen=True)
class Email:
    """Mail to one address."""

    email_address: str

    def serialize(self) -> dict[str, str]:
        """Return it as upstream's `action_json` holds it."""
        return {"name": "email", "endpoint": self.email_address}


@dataclass(frozen=True)
class SMS:
    """A text message to one number."""

    phone_number: str

    def serialize(self) -> dict[str, str]:
        """Return it as upstream's `action_json` holds it."""
        return {"name": "sms", "endpoint": self.phone_number}


class ActionList:
    """Several actions, in their order."""

    def __init__(self, *actions: StopTraining | Email | SMS) -> None:
        for action in actions:
            if not isinstance(action, StopTraining | Email | SMS):
                raise TypeError(f"ActionList takes StopTraining, Email and SMS, not {action!r}")
        self.actions = actions

    def serialize(self) -> list[dict[str, str]]:
        """Return them as upstream's `action_json` holds them."""
        return [action.serialize() for action in self.actions]


def translated(actions: ActionList | StopTraining | Email | SMS | str) -> list[Action]:
    """Return what upstream's actions are here; a lone one, or the text of `action_json`, will do too.

    Raises:
        BadAction: An address, a number or a prefix that cannot be one.
    """
    if not isinstance(actions, str):
        many = actions if isinstance(actions, ActionList) else ActionList(actions)
        actions = json.dumps(many.serialize())
    return [order.action for order in choose([actions])] if upstream(actions) else []
