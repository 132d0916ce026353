"""Tells DCGM-exporter which job uses a GPU: a file named by the GPU's index holds the job's name."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

ENV_FOLDER = "DCGM_HPC_JOB_MAPPING_DIR"
"""The folder that DCGM-exporter reads; it adds what a file holds to the GPU's metrics as label `hpc_job`."""
_MODE = 0o644  # DCGM-exporter usually runs as another user


class DcgmMapping:
    """The files of one job on one node. A file that a scheduler has written stays as it is."""

    def __init__(self, variables: Mapping[str, str], job: str) -> None:
        self._folder = variables.get(ENV_FOLDER, "")
        self._text = f"{job}\n"
        self._made: list[Path] = []

    def write(self, devices: Iterable[str]) -> str:
        """Write a file for each device, such as `gpu0`; return why one could not be written, or nothing."""
        why = ""
        for device in devices if self._folder else ():
            path = Path(self._folder, device.removeprefix("gpu"))
            try:
                with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _MODE), "w") as file:
                    self._made.append(path)
                    file.write(self._text)
            except FileExistsError:
                why = f"{path} exists; its owner says which job uses {device}"
            except OSError as error:
                why = f"{path}: {error.strerror}"
        return why

    def remove(self) -> None:
        """Remove the files that were written here, unless another program has changed them."""
        for path in self._made:
            # Another program may have removed or replaced it; this must not end the agent.
            with contextlib.suppress(OSError, UnicodeDecodeError):
                if path.read_text() == self._text:
                    path.unlink()
