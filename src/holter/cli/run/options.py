"""The options of `holter run`, each declared once.

The parser, the reader of the configuration file, the plan of a run and the page of the documentation are made
from the fields of `RunOptions`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal

from holter.cli import options, output
from holter.cli.naming import check_node
from holter.cli.options import SHARED, Refusal, Refusing, nearest
from holter.cli.run.pushing import check_endpoint
from holter.schema.metrics import DEFAULT_INTERVAL_MS
from holter.schema.windows import LOOKS

if TYPE_CHECKING:
    from argparse import ArgumentParser
    from collections.abc import Callable

    from holter.store.documents import Document


@dataclass(frozen=True, slots=True)
class RunOption:
    """How one option is written, read and documented; its name is the field's, with `-` for `_`."""

    kind: Literal["text", "list", "switch"]
    help: str
    metavar: str | None = None
    read: Callable[[str], Any] | None = None
    """Checks a text and returns its value; raises `Refusal`."""
    in_file: bool = True
    """Whether the configuration file may set it."""
    joined: bool = True
    """Whether a list of the command line is added to the one of the file; otherwise the command line wins."""
    bare: bool = False
    """Whether it may stand without a value."""


def _text(
    metavar: str | None,
    help_: str,
    read: Callable[[str], Any] | None = None,
    *,
    default: object = None,
    in_file: bool = True,
    bare: bool = False,
) -> Any:
    option = RunOption("text", help_, metavar, read, in_file=in_file, bare=bare)
    return field(default=default, metadata={"option": option})


def _list(metavar: str, help_: str, *, joined: bool = True) -> Any:
    return field(default=(), metadata={"option": RunOption("list", help_, metavar, joined=joined)})


def _switch(help_: str) -> Any:
    return field(default=False, metadata={"option": RunOption("switch", help_)})


def _job_name(given: str) -> str:
    from holter.store.job import check_name

    with Refusing(ValueError):
        check_name(given)
    return given


def _look(given: str) -> str:
    if given not in LOOKS:
        raise Refusal(f"--look {given}{nearest(given, LOOKS)}; valid: {', '.join(LOOKS)}")
    return given


def _python_hz(given: str) -> str:
    """Check `--python-hz`; warns when nothing on this machine can sample."""
    from holter.agent.python_samples import MAX_HZ, VARIABLE, missing, rate

    try:
        asked = rate({VARIABLE: given})
    except ValueError:
        raise Refusal(
            f"--python-hz {given} is out of range; valid: 0 (never) to {MAX_HZ:g} a second"
        ) from None
    if asked and (why := missing()):
        output.warn(f"--python-hz {given}: {why}; the training runs without stack samples")
    return given


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """The values of all options of one run, checked."""

    store: str | None = _text(*SHARED["--store"])
    job: str | None = _text("NAME", "the job's name; default: the script's name and the time", _job_name)
    config: str | None = _text(
        "FILE",
        "read options and rules from a TOML file, or from SageMaker's profilerconfig.json or hook "
        "configuration; the command line wins",
        in_file=False,
    )
    rule: tuple[str, ...] = _list(
        "NAME[:k=v,...]",
        "add a rule, or set parameters of a default rule; also pack:NAME, FILE.py:NAME and "
        "'when:loss > 100'; may be repeated (see `holter rules list`)",
    )
    no_rules: bool = _switch("switch the default rules off; only those of --rule run")
    no_sentinel: bool = _switch("do not watch for silent errors of the training, such as a missing zero_grad")
    no_gpu_time: bool = _switch("do not time the parts of a step on the GPU, at one step a second")
    action: tuple[str, ...] = _list(
        "NAME[:k=v,...]",
        "act when a rule finds an issue: stop_training, email, sms, webhook, run_command, ...; "
        "on=RULE and severity=critical restrict it; may be repeated",
    )
    interval: int = _text(
        "TIME",
        "how often the machine is sampled: 100ms, 200ms, 500ms (default), 1s, 5s or 1min",
        options.interval_ms,
        default=DEFAULT_INTERVAL_MS,
    )
    """Milliseconds."""
    fail_on: tuple[str, ...] = _list(
        "issue|RULE",
        "exit with 3 when CMD succeeds but any rule (or this RULE) finds an issue; may be repeated",
        joined=False,
    )
    no_live: bool = _switch("do not show the running job in the last line of the terminal")
    hang_after: float | None = _text(
        "SECONDS",
        "how long a rank may be silent before it counts as hanging; default: derived from the job's own "
        "steps, at least 120",
        options.hang_s,
    )
    save: tuple[str, ...] = _list(
        "COLLECTION[@N][:OPTION,...]",
        "save tensors every N steps: gradients@100, weights@50:histogram, /regex/@10:raw, role=loss; "
        "may be repeated",
    )
    profile_steps: tuple[str, ...] = _list(
        "FIRST:LAST[:WHAT,...]",
        "profile these steps: operators by default; shapes, stacks, cprofile, pyinstrument, dataloader, "
        "timer=NAME (of cprofile), rank=N; may be repeated",
    )
    look: str | None = _text(
        "WHEN",
        "profile a few steps without a request, for at most 300 ms or a thousandth of the loop: never, "
        "auto (default), on a CPU where the parts of a step do not explain its time, or always",
        _look,
    )
    python_hz: str | None = _text(
        "N",
        "sample the Python stack N times a second from outside with py-spy, while CMD runs; at most 20; "
        "default: 0 (never)",
        _python_hz,
    )
    otlp: str | None = _text(
        "ENDPOINT",
        "push metrics to this OpenTelemetry endpoint, as http://localhost:4318; default: "
        "OTEL_EXPORTER_OTLP_ENDPOINT; secrets belong in OTEL_EXPORTER_OTLP_HEADERS",
        check_endpoint,
        bare=True,
    )
    to: tuple[str, ...] = _list(
        "TRACKER",
        "send numbers and the verdict to the run that the training has open: tensorboard[:dir=DIR], "
        "mlflow[:uri=URL,run=ID], wandb[:run=ID,project=NAME], trackio[:project=NAME,run=NAME]",
    )
    """Experiment trackers, as `holter.report.sinks.target` reads them."""
    price: float | None = _text(*SHARED["--price"], options.price)
    """What one machine costs an hour."""
    total_steps: int | None = _text(
        "N", "how many steps the training takes, to estimate its end", options.total_steps
    )
    tag: tuple[str, ...] = _list(
        "KEY[=VALUE]",
        "put a tag on the job, by which lists of jobs are narrowed and grouped; may be repeated",
    )
    node: str | None = _text("NAME", "the name of this machine; default: its host name", check_node)
    join: bool = _switch(
        "record one job together with other nodes; srun and torchrun --nnodes N need no --join"
    )


def declared() -> dict[str, RunOption]:
    """Return how each option is declared, by its name without dashes, in the order of the help."""
    return {each.name.replace("_", "-"): each.metadata["option"] for each in fields(RunOptions)}


def add_to(parser: ArgumentParser) -> None:
    """Add every option to a parser; one that is not given is None there."""
    for name, option in declared().items():
        how: dict[str, Any] = {"action": "store_true"}
        if option.kind != "switch":
            how = {"metavar": option.metavar, "action": "append" if option.kind == "list" else "store"}
        if option.bare:
            how |= {"nargs": "?", "const": ""}
        parser.add_argument(f"--{name}", help=option.help, default=None, **how)


def read(given: Document, configured: Document) -> RunOptions:
    """Join the command line (`given`, by name of field) with the configuration file; check all values.

    Raises:
        Refusal: A value is not valid.
    """
    values: Document = {}
    for name, option in declared().items():
        typed, filed = given[name.replace("-", "_")], configured.get(name)
        value = filed if typed is None else typed
        if option.kind == "list" and option.joined:
            value = [*(filed or ()), *(typed or ())]
        if value is not None:
            checked = option.read(value) if option.read else tuple(value) if option.kind == "list" else value
            values[name.replace("-", "_")] = checked
    return RunOptions(**values)
