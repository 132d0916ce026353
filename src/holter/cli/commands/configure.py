"""`holter configure JOB --interval …`: change how often a running job is sampled."""

from __future__ import annotations

from typing import Any

from holter.cli import options
from holter.cli.commands.stop import running, tell
from holter.cli.options import Refusal

ABOUT = "Change the monitor of a running job; its training is not touched."
EXAMPLES = """  holter configure latest --interval 100ms
  holter configure train-20260131-120000 --interval 1min
  holter configure latest --monitoring off"""


def main(words: list[str]) -> int:
    """Run `holter configure`."""
    parser = options.Parser("configure", ABOUT, EXAMPLES)
    options.add_job(parser)
    options.add_store(parser)
    parser.add_argument("--interval", metavar="TIME", help="100ms, 200ms, 500ms, 1s, 5s or 1min")
    parser.add_argument("--monitoring", choices=("on", "off"), help="whether the machine is sampled at all")
    given = parser.read(words)
    if given.interval is None and given.monitoring is None:
        raise Refusal("nothing to change; give --interval or --monitoring")
    order: dict[str, Any] = {}
    if given.interval is not None:
        order["interval_ms"] = options.interval_ms(given.interval)
    if given.monitoring is not None:
        order["monitoring"] = given.monitoring == "on"
    folder = running(options.find_job(given.job, given.store))
    obeys = [facts.get("obeys") or () for facts in folder.nodes().values()]
    if "monitoring" in order and obeys and not any("monitoring" in one for one in obeys):
        text = "none of its agents switches monitoring, they are of an older version"
        raise Refusal(f"job {folder.name}: {text}", Refusal.NOT_RUNNING)
    tell(folder, order)
    if order.get("monitoring") is False:
        print(f"job {folder.name}: its machines are not sampled from now on")
    else:
        often = f" every {options.interval_text(order['interval_ms'])}" if "interval_ms" in order else ""
        print(f"job {folder.name} is sampled{often} from now on")
    return 0
