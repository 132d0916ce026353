"""Run one agent, as the command line does, and write what came out: `drive.py JSON COMMAND…`."""

from __future__ import annotations

import dataclasses
import json
import sys
import time
from pathlib import Path

from holter.agent.supervision.hangs import HangLimits
from holter.agent.supervision.supervise import Agent
from holter.store import job


def main() -> int:
    options = json.loads(sys.argv[1])
    command = sys.argv[2:]
    folder = job.create(
        options["store"], "job", command=command, interval_ms=500, rules=[], now_ns=time.time_ns()
    )
    given = options.get("spool_parent")
    agent = Agent(
        folder,
        command,
        node="node",
        interval_ms=options.get("interval_ms", 500),
        spool_parent=Path(given) if given else None,
        companions=options.get("companions", ()),
        hang=HangLimits(**options["hang"]) if "hang" in options else None,
    )
    outcome = agent.run()
    Path(options["store"] + ".json").write_text(json.dumps(dataclasses.asdict(outcome)))
    return outcome.exit_code


if __name__ == "__main__":
    raise SystemExit(main())
