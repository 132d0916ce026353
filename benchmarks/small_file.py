"""Say where the bytes of a small import go, beside what its rows would take as one frame of zstd.

Up to 2,048 rows the one file of a small import holds numbers as symbols and what is left of texts (decision
58); `as one frame` is what the job would take did it hold its rows as larger ones do (decision 51). A trace
that is not compressed is compared with what gzip, at its greatest effort, makes of it.

    python benchmarks/small_file.py TRACE…
"""

from __future__ import annotations

import argparse
import gzip
import tempfile
import time
from pathlib import Path

from holter.store.parquet.rows import unpressed

from holter.importers import import_job
from holter.store import small, tiny
from holter.store.layout import SMALL


def main() -> None:
    """Measure traces, and print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("traces", nargs="+", type=Path)
    titles = (
        "trace", "json.gz", "stored", "manifest", "texts", "numbers", "stored/json.gz", "as one frame",
        "written, s", "read, s",
    )  # fmt: skip
    print(f"| {' | '.join(titles)} |\n{'|---' * len(titles)}|")
    for trace in parser.parse_args().traces:
        told(trace)


def told(trace: Path) -> None:
    """Import one trace and print its line."""
    given = trace.read_bytes()
    size = len(given if trace.suffix == ".gz" else gzip.compress(given))
    with tempfile.TemporaryDirectory() as store:
        folder, _ = import_job([trace], store, "job", now_ns=0)
        place = Path(folder.url)
        stored = sum(path.stat().st_size for path in place.rglob("*") if path.is_file())
        manifest, file = (place / "job.json").stat().st_size, place / SMALL
        data = file.read_bytes() if file.exists() else b""
    if not data.startswith(tiny.MAGIC):
        print(f"| {trace.name[:60]} | {size} | {stored} | {manifest} | | | {stored / size:.3f} | | | |")
        return
    _, coded = unpressed(data[len(tiny.MAGIC) + 4 :])
    began = time.process_time()
    tables, document = small.unpacked(data)
    read = time.process_time() - began
    tiny.packed(tables, document)
    written = time.process_time() - began - read
    frame = manifest + len(small.framed(tables, document))
    ratios = f"{stored / size:.3f} | {frame / size:.3f} | {written:.3f} | {read:.3f}"
    texts = len(data) - len(coded)
    print(f"| {trace.name[:60]} | {size} | {stored} | {manifest} | {texts} | {len(coded)} | {ratios} |")


if __name__ == "__main__":
    main()
