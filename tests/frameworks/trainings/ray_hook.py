"""A hook of a user that adds a variable to the runtime environment: `RAY_RUNTIME_ENV_HOOK=ray_hook.hook`."""

from __future__ import annotations

from typing import Any


def hook(runtime: dict[str, Any] | None) -> dict[str, Any]:
    """Return a runtime environment with a variable more."""
    given = dict(runtime or {})
    return {**given, "env_vars": {**given.get("env_vars", {}), "FROM_HOOK": "yes"}}
