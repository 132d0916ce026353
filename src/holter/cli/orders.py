"""`--action` and `[[actions]]`: what is done about issues, checked before anything starts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holter.cli.options import Refusal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def chosen(settings: Mapping[str, Any], rules: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the orders of a job as its manifest holds them.

    Args:
        settings: What stands after each `--action` under `action`, tables of the config file under `actions`.
        rules: The rules of the job.

    Raises:
        Refusal: An unknown action, option or rule, a bad address, or a secret that is not in the environment.
    """
    given = [*settings.get("actions", ()), *settings.get("action", ())]
    if not given:
        return []
    if not rules:
        raise Refusal("--action needs a rule, but there is none (--no-rules)")
    from holter.actions import BadAction, Secrets
    from holter.actions._orders import check, choose, documents

    try:
        orders = choose(given, rules)
        check(orders, Secrets())
    except BadAction as error:
        raise Refusal(str(error)) from None
    return documents(orders)
