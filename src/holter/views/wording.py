"""Formats numbers, names and findings as text for the terminal and the pages."""

from __future__ import annotations

import math
import re
from difflib import get_close_matches
from itertools import takewhile
from typing import TYPE_CHECKING, Literal

from holter.analysis.verdict.evidence import counted
from holter.schema.phases import SPOKEN

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from holter.views.document.types.job import GpuFacts, SkippedFile
    from holter.views.document.types.rules import RuleIssue
    from holter.views.document.types.training import LoadingSummary, NumberSummary, StepSummary
    from holter.views.document.types.verdict import JobVerdict, VerdictAdvice
    from holter.views.document.types.wall_time import GpuTimesEntry
    from holter.views.issues import IssueGroup

_PLACES: tuple[Literal["node", "rank", "device", "tensor"], ...] = ("node", "rank", "device", "tensor")
_ENDS: tuple[tuple[str, Literal["least", "most"], Literal["least_step", "most_step"]], ...] = (
    ("lowest", "least", "least_step"),
    ("highest", "most", "most_step"),
)
_ANGLES = "<…>"
_APART = 16
"""Letters, from the first that differs, that tell names of kernels apart."""
_FUNCTOR = re.compile(
    r"\b(?!(?:A|B)?(?:Unary|Binary)Functor\b|gpu_kernel_impl)"  # which hold the functor that does the work
    r"(CUDAFunctor_\w+|\w*(?:Functor|Ops?|_kernel_cuda|_kernel_impl|_cuda)\b|\w+_kernel(?=\())"
)
_INSTANCE = re.compile(r"(\w{12,})>")
_INSTALLED = re.compile(r"\((?:[^()]*/)?(?:site-packages|dist-packages|lib/python3\.\d+)/")
_STATUS = {"InProgress": "Running", "IssuesFound": "Found", "NoIssuesFound": "Clear"}
_LONGEST = 2000
"""Letters of a value."""
LEAST_PCT = 0.05
"""Smaller shares are omitted."""
_LEAST_PROMISED_MS = 0.001
_NAMES = {
    "healthy": "no bottleneck",
    **SPOKEN,
    "d2h": "device to host",
    "d2d": "device to device",
    "p2p": "peer to peer",
}


def duration(seconds: float | None) -> str:
    """Write a duration for people: `27 ms`, `0.4 s`, `35 s`, `2 min 5 s`, `12 h 3 min`, `3 d 4 h`."""
    if seconds is None or math.isnan(seconds):
        return "unknown"
    if 0 < seconds < 0.1:
        return milliseconds(seconds * 1000)
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    if whole < 4 * 86400:
        return f"{whole // 3600} h {whole % 3600 // 60} min"
    return f"{whole // 86400:,} d {whole % 86400 // 3600} h"


def trainings_text(steps: StepSummary | None) -> str:
    """Say that several trainings ran one after the other; empty for one."""
    counts = steps.get("trainings", []) if steps else []
    if len(counts) < 2:
        return ""
    each = " + ".join(f"{count:,}" for count in counts[:8]) + (" + …" if len(counts) > 8 else "")
    if steps and steps.get("restarted"):
        return f"{len(counts)} attempts of one training: {each} steps"
    return f"{len(counts)} trainings ran one after the other: {each} steps"


def at_once_text(steps: StepSummary | None) -> str:
    """Say that one call runs several steps; empty if each step runs alone."""
    count = steps.get("at_once", 1) if steps else 1
    return f"one call runs {count:,} steps; each step has the mean time of its call" if count > 1 else ""


def gpu_times_text(found: GpuTimesEntry | None) -> str:
    """Return the parts of a step on the GPU, the largest first; empty if no step was measured."""
    if not found:
        return ""
    parts = sorted(found["parts"], key=lambda one: -one["pct"])
    named = ", ".join(
        f"{words(one['part'])} {milliseconds(one['gpu_ms'])}" for one in parts if one["pct"] >= 1
    )
    measured = counted(found["steps"], "measured step")
    return (
        f"{milliseconds(found['gpu_ms'])} a step on the GPU, in {measured}: {named}; "
        "all other times are those of the host"
    )


def milliseconds(value: float | None) -> str:
    """Write milliseconds with three significant digits: `30.9 µs`, `0.52 ms`, `12.4 ms`, `1.24 s`."""
    if value is None or math.isnan(value):
        return "unknown"
    if 0 < value < 0.1:
        return f"{value * 1e3:.3g} µs" if value >= 1e-3 else f"{value * 1e6:.3g} ns"
    if value >= 1000:
        return f"{value / 1000:.3g} s"
    return f"{value:.0f} ms" if value >= 100 else f"{value:.3g} ms"


def rate(per_second: float) -> str:
    """Write how often something happens in a second, without the unit: `2.86`, `1,410`."""
    return f"{per_second:,.0f}" if per_second >= 1000 else f"{per_second:.3g}"


def hours_text(count: float) -> str:
    """Write a number of hours, without the unit: `0.0051`, `12.5`, `1,410`."""
    return rate(count)


def size(count: float | None) -> str:
    """Write a number of bytes: `512 B`, `1.2 MB`, `40 GB` (powers of 1000)."""
    if count is None or math.isnan(count):
        return "unknown"
    for unit in ("B", "kB", "MB", "GB"):
        if abs(count) < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"


def reading_text(value: float | None, unit: str) -> str:
    """Write a reading by its unit; bytes with their unit, others without."""
    if value is None:
        return ""
    if unit.startswith("bytes"):
        return size(value) + unit.removeprefix("bytes")
    return f"{value:.1f}" if unit.startswith("%") and abs(value) < 99.95 else f"{value:.3g}"


def percent(value: float | None) -> str:
    """Write a share: `60 %`, `7.5 %`, `0.04 %`."""
    if value is None or math.isnan(value):
        return "unknown"
    if value and abs(value) < 0.1:
        return f"{value:.2f} %"
    return "100 %" if 99.95 <= value <= 100 else f"{value:.1f} %"


def stages_text(dataloading: LoadingSummary | None) -> str:
    """Name the stages of data loading with their shares, and of each the callable that takes most of it."""
    if not dataloading or not dataloading["stages"]:
        return ""
    guilty: dict[str, str] = {}
    for found in sorted(dataloading["callables"], key=lambda found: -(found["fetch_pct"] or 0.0)):
        guilty.setdefault(found["stage"] or "", found["name"])
    ordered = sorted(((s, n) for n, s in dataloading["stages"].items() if s is not None), reverse=True)
    said = (
        f"{words(name)} {percent(share)}" + (f" in {guilty[name]}" if name in guilty else "")
        for share, name in ordered
        if share >= LEAST_PCT
    )
    return ", ".join(said)


def gpus_text(gpus: Sequence[GpuFacts] | None) -> str:
    """Name a node's GPUs: `2 GPUs (NVIDIA H100)`; None is not known."""
    if not gpus:
        return "GPUs unknown" if gpus is None else "no GPU"
    names = sorted({str(gpu["name"]) for gpu in gpus if gpu.get("name")})
    return counted(len(gpus), "GPU") + (f" ({', '.join(names)})" if names else "")


def unread_text(job: str, files: Sequence[SkippedFile], all_at: str = "") -> str:
    """Name the unreadable files of a job, and where all of them are listed; empty if all could be read."""
    if not files:
        return ""
    more = f", and {len(files) - 1} more{f': {all_at}' * bool(all_at)}" if files[1:] else ""
    return (
        f"{counted(len(files), 'file')} of {job} cannot be read: {files[0]['file']}: {files[0]['why']}{more}"
    )


def advice_text(advice: VerdictAdvice) -> str:
    """One advice, after the step time that it promises."""
    expected = promised(advice)
    return (f"→ {milliseconds(expected)} a step: " if expected is not None else "") + advice["text"]


def promised(advice: VerdictAdvice) -> float | None:
    """Return the step time that an advice promises, ms; None if next to nothing would remain."""
    expected = advice["expected_step_ms"]
    return None if expected is None or expected < _LEAST_PROMISED_MS else expected


def status_text(status: str | None) -> str:
    """Write the status of a job or a rule: `Running`, `Completed`, `Found`, `Clear`."""
    return _STATUS.get(status or "", status or "unknown")


def severity_text(severity: str) -> str:
    """Write the severity of an issue: `note`, `warning`, `critical`."""
    return "note" if severity == "info" else severity


def value_text(value: object) -> str:
    """Write a value of an issue's evidence or a rule's parameter, also a list or a dictionary of values."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None:
        return "unknown"
    if isinstance(value, float):
        return f"{value:,.0f}" if 1000 <= abs(value) < 1e15 else f"{value:.3g}"
    if isinstance(value, dict):
        text = ", ".join(f"{words(str(key))} {value_text(one)}" for key, one in value.items())
    elif isinstance(value, list | tuple):
        text = ", ".join(map(value_text, value))
    else:
        text = str(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def sentence_text(verdict: JobVerdict, headline: str | None, steps: object) -> str:
    """Write the sentence of a verdict; below a headline it is about speed, which is the lesser news."""
    said = verdict["sentence"]
    return f"Apart from that: {said}" if headline and steps else said


def issue_text(found: IssueGroup) -> str:
    """Describe one issue: its rule, its summary, and whether it is resolved."""
    return f"{found.rule}: {found.issue['summary']}" + (" (over since)" if found.over else "")


def place_text(issue: RuleIssue) -> str:
    """Name the node, rank, device, tensor and steps of an issue; empty without any."""
    places = [f"{name} {issue[name]}" for name in _PLACES if issue.get(name) not in (None, "")]
    first, last = issue.get("step_start"), issue.get("step_end")
    if first is not None:
        places.append(f"step {first}" if last in (first, None) else f"steps {first} to {last}")
    return ", ".join(places)


def number_text(one: NumberSummary) -> str:
    """Describe the course of a logged number: `loss: 2.303 in step 0, 0.05214 in step 399, …`."""
    name = one["name"] + ("" if one["mode"] in ("train", "global") else f" ({one['mode']})")
    if one["first"] is None:
        return f"{name}: never a finite number in {counted(one['steps'], 'step')}"
    if one["steps"] == 1:
        said = f"{one['first']:.3g} in step {one['first_step']}"
    elif one["least"] == one["most"]:
        said = f"{one['first']:.3g} (constant, {one['steps']:,} steps)"
    else:
        said = f"{one['first']:.3g} in step {one['first_step']}, {one['last']:.3g} in step {one['last_step']}"
        ends = (one["first_step"], one["last_step"])
        for word, key, step in _ENDS:
            said += f", {word} {one[key]:.3g} in step {one[step]}" if one[step] not in ends else ""
    return f"{name}: {said}" + (f"; {one['nonfinite']:,} not finite" if one["nonfinite"] else "")


def words(name: str) -> str:
    """Write a name of the schema in plain words."""
    return _NAMES.get(name, name.replace("_", " "))


def natural(name: str) -> list[tuple[int, str]]:
    """Return a key that sorts numbers within names by their value: `cpu2` before `cpu10`."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name[:1000])]


def plain_function(name: str) -> str:
    """Write `function (file:line)` without the folder in which Python or its packages are installed."""
    return _INSTALLED.sub("(", name)


def plain_kernel(name: str) -> str:
    """Write the name of a kernel without what its compiler added: `elementwise_kernel<AddFunctor>`.

    The name loses its arguments and namespaces. Of the text in angles it keeps the functor, which
    distinguishes PyTorch's kernels, or the instance that `cutlass::Kernel<…>` names.
    """
    kept, depth = [], 0
    for letter in name.removeprefix("void ").replace("(anonymous namespace)::", ""):
        if letter == "<":
            kept.append(_ANGLES * (depth == 0))
        depth += {"<": 1, ">": -1}.get(letter, 0)
        if letter == "(" and depth == 0 and kept:
            break
        if depth == 0 and letter != ">":
            kept.append(letter)
    plain = "".join(kept)
    if depth != 0 or not plain.strip(f"{_ANGLES} "):  # no name of C++
        return name
    head, angles, tail = plain.partition(_ANGLES)
    functor = _FUNCTOR.search(name, len(head)) if angles else None
    inside = f"<{functor[1]}>" if functor else angles
    instance = _INSTANCE.match(name.partition("<")[2]) if inside == angles else None
    if instance and head.endswith("Kernel"):  # of a library of kernels: which of them it is
        return instance[1]
    return (head.rpartition("::")[2] + inside + tail).strip() or name


def plain_event(name: str) -> str:
    """Write the name of an event: that of a kernel in C++ as `plain_kernel` does, others as they are."""
    return plain_kernel(name) if "<" in name or name.startswith("void ") else name


def plain_kernels(names: Sequence[str]) -> list[str]:
    """Write names of kernels as `plain_kernel` does; those that would be alike get what tells them apart."""
    short = [plain_kernel(name) for name in names]
    alike: dict[str, list[int]] = {}
    for at, name in enumerate(short):
        alike.setdefault(name, []).append(at)
    for places in alike.values():
        if len(places) > 1:
            letters = zip(*(names[at] for at in places), strict=False)
            same = sum(1 for _ in takewhile(lambda each: len(set(each)) == 1, letters))
            for at in places:
                begin = max(names[at].rfind(one, 0, same) for one in "<, :") + 1
                short[at] += f" …{names[at][begin : same + _APART].strip()}…"
    return short


def meant(name: str, valid: Iterable[str]) -> str:
    """Return ` (did you mean 'NEAR'?)` if a valid name is similar to `name`; else nothing."""
    near = get_close_matches(name, list(valid), n=1)
    return f" (did you mean {near[0]!r}?)" if near else ""
