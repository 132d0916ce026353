"""The types of `window` and `trace` in a job's description: profiled steps and imported traces."""

from typing import Annotated, Literal, NotRequired, TypedDict, final

from msgspec import Meta

from holter.views.document.types.values import Amount, TableRow


class PeakShare(TypedDict):
    """The share of the device's peak that the known operators reach."""

    pct: Amount
    tflop: Amount
    precision: str
    peak_tflops: float
    device: str


class DurationStatistics(TypedDict):
    """Mean and percentiles of durations."""

    mean_us: float
    p50_us: float
    p95_us: float
    p99_us: float
    max_us: float


class CountedDurations(DurationStatistics):
    """Durations with their number."""

    count: int


class LaunchStatistics(TypedDict):
    """Launches of kernels: the call on the host, the delay, and the run on the device."""

    count: int
    call: DurationStatistics
    delay: DurationStatistics
    run: DurationStatistics


class RooflineRow(TypedDict):
    """One operator whose work is known from its shapes."""

    name: str
    calls: int
    flops: int
    bytes: int
    device_ns: int
    host_ns: int
    side: Literal["host", "device"]
    tflops: Annotated[
        float | None, Meta(description="TFLOP per second of device_ns, or of host_ns if side is host.")
    ]
    intensity: Annotated[float | None, Meta(description="FLOP per byte.")]
    peak_pct: Annotated[float | None, Meta(description="Percent of the device's peak; null if unknown.")]
    bound: Literal["compute", "memory", ""]


class StreamQueue(TypedDict):
    """The launch queue of one stream."""

    rank: int
    device: int
    stream: int
    longest: int
    mean: float | None


class HostBoundDevice(TypedDict):
    """How far one device waits for the host's launches."""

    rank: int
    device: int
    starved_pct: float
    short_pct: float
    stretches: int
    stretches_us: float


class GradientPair(TypedDict):
    """A forward operator and its backward operator."""

    forward: str
    backward: str
    count: int
    forward_us: float
    backward_us: float


class MemoryCounter(TypedDict):
    """A memory counter of an accelerator."""

    rank: int
    name: str
    peak: float
    growth: float


class WindowDetail(TypedDict):
    """Details that `diagnose --json` adds. Null and empty: the events do not contain them."""

    steps: CountedDurations | None
    roles: dict[str, float] | None
    kernels_by_launches: list[TableRow]
    modules: list[TableRow]
    roofline: Annotated[list[RooflineRow], Meta(description="Needs shapes.")]
    launches: LaunchStatistics | None
    queues: list[StreamQueue]
    host_bound: list[HostBoundDevice]
    collectives: list[TableRow]
    copies: list[TableRow]
    hta_critical_path: dict[str, float] | None
    gradients: list[GradientPair]
    annotations: list[TableRow]
    memory: list[MemoryCounter]


class WindowExtras(TypedDict):
    """Entries that `diagnose --json` adds to a window."""

    devices: Annotated[
        list[str],
        Meta(description="Accelerators of the job's nodes; empty for operators of the CPU."),
    ]
    mfu: Annotated[
        PeakShare | None, Meta(description="Null if the shapes, the device or its peak are unknown.")
    ]
    detail: WindowDetail


@final
class ProfiledWindow(TypedDict):
    """The newest profiled steps. Its parts are null if no kernel was recorded."""

    step_start: int
    step_end: int
    step_ms: Annotated[
        float | None,
        Meta(description="Time of such a step without a profiler if known and shorter; else as recorded."),
    ]
    ranks: list[int]
    breakdown: dict[str, Annotated[float, Meta(ge=0, le=100.5)]] | None
    activity: dict[str, float] | None
    precision: dict[str, float] | None
    critical_path: dict[str, float] | None
    devices: NotRequired[list[str]]
    mfu: NotRequired[PeakShare | None]
    detail: NotRequired[WindowDetail]


class TimeDivision(TypedDict):
    """The time of one accelerator, divided by the definition of one tool."""

    definition: str
    rank: int
    device: int | None
    span_us: float
    idle_us: float
    compute_us: float
    communication_us: float
    communication_exposed_us: float
    memory_us: float
    memory_exposed_us: float
    overlap_pct: float | None


class IdleDivision(TypedDict):
    """The idle time of one accelerator by reason."""

    rank: int
    device: int
    host_wait_us: float
    kernel_wait_us: float
    other_us: float
    unknown_us: float


class TraceLateRank(TypedDict):
    """A rank that enters collectives late."""

    rank: int
    cause: str
    lateness_us: float
    collectives: int
    later: int
    last: int


class TraceOddRank(TypedDict):
    """A rank that spends more time on one part than the others."""

    rank: int
    part: str
    own_us: float
    usual_us: float


@final
class TraceNumbers(TypedDict):
    """An imported trace: its files, devices, and the numbers of other tools under their definitions."""

    files: dict[str, str]
    devices: list[str]
    mfu: PeakShare | None
    detail: WindowDetail | None
    precision: dict[str, float]
    activity: dict[str, float]
    memory: list[TableRow]
    breakdowns: list[TimeDivision]
    idle: list[IdleDivision]
    critical_path: dict[str, float]
    late_ranks: list[TraceLateRank]
    odd_ranks: list[TraceOddRank]
