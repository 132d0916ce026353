"""The severities of issues, from the least severe to the most severe."""

from __future__ import annotations

from typing import Literal

Severity = Literal["info", "warning", "critical"]
SEVERITIES: tuple[Severity, ...] = ("info", "warning", "critical")
