"""A real S3 server on loopback: Ceph's RADOS Gateway with one monitor and one disk in memory."""

from __future__ import annotations

import secrets
import shutil
import signal
import subprocess
import urllib.error
import urllib.request
import uuid
from datetime import timedelta
from pathlib import Path

import obstore
import obstore.store
from tests.ports import free_port, wait_until_it_answers

PROGRAMS = ("ceph-mon", "ceph-osd", "radosgw", "radosgw-admin", "monmaptool", "ceph-authtool", "ceph")
MISSING = [program for program in PROGRAMS if shutil.which(program) is None]
WHERE_FROM = "apt-get install --no-install-recommends radosgw ceph-mon ceph-osd ceph-common"
_READY_S = 120.0


class Gateway:
    """The server; `start` until `close`. `pause` and `resume` let it vanish and come back, data and all."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.access_key = secrets.token_hex(10)
        self.secret_key = secrets.token_hex(20)
        self._port = free_port()
        self._buckets = 0
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def endpoint(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def variables(self) -> dict[str, str]:
        """What a user puts into the environment to reach it."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": self.access_key,
            "AWS_SECRET_ACCESS_KEY": self.secret_key,
            "AWS_REGION": "us-east-1",
        }

    def start(self) -> Gateway:
        """Start all three; returns once a bucket could be made."""
        folder, mon, fsid, disk = self.folder, free_port(), uuid.uuid4(), uuid.uuid4()
        for name in ("mon", "osd", "rgw"):
            (folder / name).mkdir(parents=True)
        self._configure(fsid, mon)
        monmap, create = folder / "monmap", ["--create-keyring"]
        _run("monmaptool", "--create", "--addv", "a", f"[v2:127.0.0.1:{mon}]", "--fsid", str(fsid), monmap)
        for name, caps in {"mon.": ["mon"], "client.admin": ["mon", "osd"]}.items():
            allowed = [word for service in caps for word in ("--cap", service, "allow *")]
            _run("ceph-authtool", "--gen-key", "-n", name, *allowed, folder / "keyring", *create)
            create = []
        self._run("ceph-mon", "--mkfs", "-i", "a", "--monmap", monmap)
        self._spawn("mon", "ceph-mon", "-f", "-i", "a")
        self._run("ceph", "osd", "new", str(disk))
        caps = ("mon", "allow *", "osd", "allow *")
        self._run("ceph", "auth", "get-or-create", "osd.0", *caps, "-o", folder / "osd" / "keyring")
        self._run("ceph-osd", "-i", "0", "--mkfs", "--osd-uuid", str(disk))
        self._spawn("osd", "ceph-osd", "-f", "-i", "0")
        keys = ("--access-key", self.access_key, "--secret-key", self.secret_key)
        self._run("radosgw-admin", "user", "create", "--uid=tests", "--display-name=tests", *keys)
        self.resume()
        return self

    def resume(self) -> None:
        """Start the gateway in front of the data."""
        self._spawn("rgw", "radosgw", "-f", "-n", "client.admin")
        wait_until_it_answers(self.endpoint, self._processes["rgw"], _READY_S, self.folder)

    def pause(self) -> None:
        """End the gateway at once; the data stay."""
        process = self._processes.pop("rgw")
        process.kill()
        process.wait()

    def close(self) -> None:
        """End all."""
        for name in ("rgw", "osd", "mon"):
            process = self._processes.pop(name, None)
            if process is not None:
                process.send_signal(signal.SIGKILL)
                process.wait()

    def bucket(self, name: str = "") -> str:
        """Make a bucket, with a name of its own when none is given; returns its URL."""
        self._buckets += 1
        name = name or f"jobs-{self._buckets}"
        # The client makes no buckets, but signs any request.
        store = obstore.store.S3Store(
            name,
            endpoint=self.endpoint,
            access_key_id=self.access_key,
            secret_access_key=self.secret_key,
            region="us-east-1",
            client_options={"allow_http": True},
        )
        url = obstore.sign(store, "PUT", "", timedelta(minutes=1))
        with urllib.request.urlopen(urllib.request.Request(url, method="PUT"), timeout=_READY_S):
            return f"s3://{name}"

    def _configure(self, fsid: uuid.UUID, mon: int) -> None:
        folder = self.folder
        (folder / "ceph.conf").write_text(f"""[global]
fsid = {fsid}
mon host = [v2:127.0.0.1:{mon}]
mon data = {folder}/mon
osd data = {folder}/osd
rgw data = {folder}/rgw
run dir = {folder}
log file = {folder}/$type.log
admin socket =
pid file =
keyring = {folder}/keyring
mon allow pool size one = true
mon max pg per osd = 10000
osd pool default size = 1
osd pool default pg num = 1
osd pool default pgp num = 1
osd pool default pg autoscale mode = off
osd crush chooseleaf type = 0
osd objectstore = memstore
memstore device bytes = 2147483648
ms bind ipv6 = false
public addr = 127.0.0.1
cluster addr = 127.0.0.1
rgw frontends = beast endpoint=127.0.0.1:{self._port} tcp_nodelay=1
rgw enable usage log = false
rgw run sync thread = false
[osd]
keyring = {folder}/osd/keyring
""")

    def _run(self, program: str, *words: object) -> None:
        _run(program, "-c", self.folder / "ceph.conf", *words)

    def _spawn(self, name: str, program: str, *words: str) -> None:
        with (self.folder / f"{name}.out").open("ab") as out:
            self._processes[name] = subprocess.Popen(
                [program, "-c", str(self.folder / "ceph.conf"), *words],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
            )


def _run(*words: object) -> None:
    done = subprocess.run(
        list(map(str, words)), capture_output=True, text=True, timeout=_READY_S, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{words[0]}: exit {done.returncode}: {done.stderr.strip()[-500:]}")
