"""Runs the checks in turn: `scripts/gpu-kit [--into FOLDER] [--only TEXT] [--rehearse]`.

A check that fails does not stop the others. FOLDER gets `gpu-kit.json`, `gpu-kit.md` and the recorded jobs.
Without a GPU every check says so; `--rehearse` runs on the CPU what can run there, to test the kit itself.
"""

from __future__ import annotations

import argparse
import platform
import time
from pathlib import Path

from gpu_kit.checks import CHECKS
from gpu_kit.results import Figure, NotAvailableError, Result, WrongError, as_json, as_markdown
from gpu_kit.running import Kit


def machine() -> tuple[dict[str, Figure], bool]:
    """Return what this machine is, and whether PyTorch can use a GPU."""
    found: dict[str, Figure] = {"python": platform.python_version(), "system": platform.platform()}
    try:
        import torch
    except ImportError:
        return {**found, "torch": None, "gpu": None}, False
    usable = torch.cuda.is_available()
    gpu = torch.cuda.get_device_name(0) if usable else None
    return {**found, "torch": torch.__version__, "cuda": torch.version.cuda, "gpu": gpu}, usable


def tried(name: str, kit: Kit | None) -> Result:
    """Run one check; whatever happens becomes its result."""
    check, began = CHECKS[name], time.monotonic()
    made = Result(name, (check.__doc__ or "").strip().rstrip("."), "measured")
    try:
        if kit is None:
            raise NotAvailableError("no NVIDIA GPU")
        made.figures = check(kit)
    except NotAvailableError as lacking:
        made.status, made.why = "not available", str(lacking)
    except WrongError as wrong:
        made.status, made.why, made.figures = "failed", str(wrong), wrong.figures
    except Exception as error:
        made.status, made.why = "failed", f"{type(error).__name__}: {error}"
    made.seconds = time.monotonic() - began
    return made


def main() -> None:
    """Run the checks and write the results after each, so that an end by hand loses none."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--into", type=Path, default=Path("gpu-kit"))
    parser.add_argument("--only", default="", help="a part of a check's name")
    parser.add_argument(
        "--rehearse", action="store_true", help="without a GPU, run on the CPU what can run there"
    )
    given = parser.parse_args()
    about, usable = machine()
    given.into.mkdir(parents=True, exist_ok=True)
    kit = Kit(given.into, "cuda" if usable else "cpu") if usable or given.rehearse else None
    results: list[Result] = []
    for name in CHECKS:
        if given.only in name:
            results.append(tried(name, kit))
            (given.into / "gpu-kit.json").write_text(as_json(about, results))
            (given.into / "gpu-kit.md").write_text(as_markdown(about, results))
            print(f"{name}: {results[-1].status} {results[-1].why}".rstrip(), flush=True)


if __name__ == "__main__":
    main()
