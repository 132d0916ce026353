"""`holter configure JOB`: change how often a running job's machines are sampled."""

from __future__ import annotations

from holter.cli import options, output
from holter.cli.job_lookup import check_obeyed, running_job, send_order
from holter.cli.options import Refusal

ABOUT = "Change how the machines of a running job are sampled. The training is not touched."
EXAMPLES = """  holter configure latest --interval 100ms
  holter configure train-20260131-120000 --interval 1min
  holter configure latest --monitoring off"""


def main(words: list[str]) -> int:
    """Run `holter configure`."""
    parser = options.Parser("configure", ABOUT, EXAMPLES, "job", "--store", "--json")
    parser.add_argument("--interval", metavar="TIME", help="100ms, 200ms, 500ms, 1s, 5s or 1min")
    parser.add_argument("--monitoring", choices=("on", "off"), help="switch sampling on or off")
    given = parser.read(words)
    if given.interval is None and given.monitoring is None:
        raise Refusal("nothing to change; give --interval or --monitoring")
    order: dict[str, int | bool] = {}
    if given.interval is not None:
        order["interval_ms"] = options.interval_ms(given.interval)
    if given.monitoring is not None:
        order["monitoring"] = given.monitoring == "on"
    folder = running_job(given.job, given.store)
    if "monitoring" in order:
        check_obeyed(folder, "monitoring")
    send_order(folder, order)
    if given.json:
        output.write_json({"schema": 1, "job": folder.name, **order})
    elif order.get("monitoring") is False:
        print(f"job {folder.name}: its machines are no longer sampled")
    else:
        often = f" every {options.interval_text(order['interval_ms'])}" if "interval_ms" in order else ""
        print(f"job {folder.name}: its machines are now sampled{often}")
    return 0
