"""The JSON API: one module per resource, with `routes(stores) -> list[Route]`. The folder is the registry.

Resources of one job are below `/api/v1/jobs/{job}`; the parameter `store` numbers its store, from 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holter.plugins import modules

if TYPE_CHECKING:
    from starlette.routing import Route

    from holter.dashboard.stores import Stores

JOB = "/api/v1/jobs/{job}"


def routes(stores: Stores) -> list[Route]:
    """Return the routes of all resources."""
    return [route for module in modules(__name__).values() for route in module.routes(stores)]
