"""Small traces of steps on accelerators, where every nanosecond is known."""

from __future__ import annotations

from tests.rules.tables import START

from holter.schema.table import Table

US, MS = 1_000, 1_000_000
Rows = dict[str, list[dict]]
GEMM32, GEMM16 = "ampere_sgemm_128x64_nn", "ampere_bf16_s16816gemm_bf16_128x128_tn"


class Trace:
    """Puts rows together; times are ns since the trace began."""

    def __init__(self) -> None:
        names = ("kernels", "launches", "memory_operations", "syncs", "operators", "steps", "spans")
        self.rows: Rows = {name: [] for name in names}
        self._correlation = 0

    def _add(self, table: str, at: float, length: float, rank: int, **columns: object) -> None:
        row = {"time": START + round(at), "duration": round(length), "rank": rank, "node": "n0", **columns}
        self.rows[table].append(row)

    def step(self, at: float, length: float, number: int, *, rank: int = 0, **parts: int) -> None:
        self._add("steps", at, length, rank, step=number, mode="train", **parts)

    def kernel(
        self,
        at: float,
        length: float,
        *,
        rank: int = 0,
        launched: float | None = None,
        name: str = "void at::native::elementwise_kernel<128, 4>",
        **columns: object,
    ) -> None:
        """Add a kernel; `launched` is when the host asked for it."""
        given = {"kind": "compute", "stream": 7, "correlation": self._launch(launched, rank), **columns}
        self._add("kernels", at, length, rank, name=name, **given)

    def collective(self, at: float, length: float, *, rank: int = 0, **columns: object) -> None:
        given = {"kind": "communication", "collective": "allreduce", "process_group": "0", "stream": 13}
        self._add("kernels", at, length, rank, **{"name": "ncclDevKernel_AllReduce", **given, **columns})

    def copy(
        self, at: float, length: float, *, rank: int = 0, call: str = "cudaMemcpyAsync", **columns: object
    ) -> None:
        given = {
            "kind": "h2d",
            "memory": "pageable",
            "stream": 7,
            "correlation": self._launch(at, rank, call),
        }
        self._add("memory_operations", at, length, rank, **{**given, **columns})

    def sync(self, at: float, length: float, *, rank: int = 0, name: str = "cudaStreamSynchronize") -> None:
        self._add("syncs", at, length, rank, kind="stream", name=name)

    def operator(self, name: str, at: float, length: float, *, rank: int = 0, detail: str = "") -> None:
        self._add("operators", at, length, rank, name=name, kind="operator", thread=0, detail=detail)

    def span(self, phase: str, at: float, length: float, *, rank: int = 0) -> None:
        self._add("spans", at, length, rank, phase=phase, worker=-1, thread=0)

    def _launch(self, at: float | None, rank: int, call: str = "cudaLaunchKernel") -> int:
        if at is None:
            return 0
        self._correlation += 1
        self._add("launches", at, 5 * US, rank, name=call, thread=1, correlation=self._correlation)
        return self._correlation

    @property
    def tables(self) -> dict[str, Table]:
        return {name: Table.of(name, rows) for name, rows in self.rows.items()}


def syncing(per_step, *, idle_us=200, count=10, loading=False):
    """Stretches of work, each followed by a sync and by an idle stretch of the device."""
    trace = Trace()
    part = (1000 + idle_us) * US
    for i in range(count):
        at = i * per_step * part
        trace.step(at, per_step * part, i)
        for k in range(per_step):
            begin = at + k * part
            trace.kernel(begin, 1 * MS, launched=begin - 10 * US)
            trace.sync(begin + 10 * US, 1 * MS, name="aten::item (train.py:42)" if k else "clip (opt.py:7)")
            if loading:
                trace.span("data_loading", begin + 1 * MS, idle_us * US)
    return trace.tables
