"""A real Slurm on loopback: one controller and two nodes, with munge, as any user can start them."""

from __future__ import annotations

import contextlib
import os
import pwd
import secrets
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from tests.ports import free_port

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "sinfo", "scontrol", "squeue")
MISSING = [program for program in PROGRAMS if shutil.which(program) is None]
WHERE_FROM = "apt-get install --no-install-recommends slurm-wlm munge"
_READY_S = 60.0


class Slurm:
    """A cluster of the nodes node0 and node1, both this machine; `start` until `close`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._processes: list[subprocess.Popen[bytes]] = []

    @property
    def variables(self) -> dict[str, str]:
        """What a user puts into the environment to reach it."""
        return {"SLURM_CONF": str(self.folder / "slurm.conf")}

    def start(self) -> Slurm:
        """Start all; returns once both nodes are idle."""
        for name in ("munge", "run", "state", "log"):
            (self.folder / name).mkdir(parents=True, mode=0o755)
        self._configure()
        munge = self.folder / "munge"
        munge.chmod(0o700)
        key = munge / "key"
        key.write_bytes(secrets.token_bytes(1024))
        key.chmod(0o400)
        # munged refuses folders that others may write, such as /tmp, unless it is forced.
        words = ["--foreground", "--force", f"--socket={self.folder}/run/munge", f"--key-file={key}"]
        words += [f"--{name}-file={munge}/{name}" for name in ("pid", "log", "seed")]
        self._spawn("munged", *words)
        self._until(lambda: (self.folder / "run" / "munge").exists())
        self._spawn("slurmctld", "-D", "-i")
        for node in ("node0", "node1"):
            self._spawn("slurmd", "-D", "-N", node)
        self._until(lambda: self.run("sinfo", "--noheader", "--format=%D %t", check=False) == "2 idle")
        return self

    def run(self, *words: str, check: bool = True, folder: Path | None = None, **more: str) -> str:
        """Run a command of Slurm; returns what it writes to standard output."""
        done = subprocess.run(
            words,
            env={**os.environ, **self.variables, **more},
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        if check and done.returncode:
            raise RuntimeError(f"{words[0]}: exit {done.returncode}: {done.stderr.strip()[-500:]}")
        return done.stdout.strip()

    def close(self) -> None:
        """End all; jobs first, because their processes outlive the daemons."""
        with contextlib.suppress(RuntimeError, subprocess.TimeoutExpired):
            jobs = self.run("squeue", "--noheader", "--format=%i").split()
            if jobs:
                self.run("scancel", "--full", *jobs)
            self._until(lambda: self.run("sinfo", "--noheader", "--format=%D %t") == "2 idle")
        for process in reversed(self._processes):
            process.kill()
            process.wait()

    def _spawn(self, program: str, *words: str) -> None:
        with (self.folder / "log" / f"{program}.out").open("ab") as out:
            self._processes.append(
                subprocess.Popen(
                    [shutil.which(program) or program, *words],
                    env={**os.environ, **self.variables},
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=out,
                )
            )

    def _until(self, ready: Callable[[], object]) -> None:
        deadline = time.monotonic() + _READY_S
        while not ready():
            ended = [one.args for one in self._processes if one.poll() is not None]
            if ended or time.monotonic() > deadline:
                raise RuntimeError(f"no cluster: {ended or 'not ready in time'}; see {self.folder}/log")
            time.sleep(0.1)

    def _configure(self) -> None:
        folder, user = self.folder, pwd.getpwuid(os.getuid()).pw_name
        ports = [free_port() for _ in range(3)]
        nodes = "".join(
            f"NodeName=node{at} NodeHostname=localhost NodeAddr=127.0.0.1 Port={port} CPUs=8 State=UNKNOWN\n"
            for at, port in enumerate(ports[1:])
        )
        (folder / "slurm.conf").write_text(f"""ClusterName=tests
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={ports[0]}
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={folder}/run/munge
SlurmUser={user}
SlurmdUser={user}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/run/slurmctld.pid
SlurmdPidFile={folder}/run/slurmd-%n.pid
SlurmctldLogFile={folder}/log/slurmctld.log
SlurmdLogFile={folder}/log/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
ReturnToService=2
SlurmdParameters=config_overrides
{nodes}PartitionName=all Nodes=node0,node1 Default=YES MaxTime=INFINITE State=UP
""")
