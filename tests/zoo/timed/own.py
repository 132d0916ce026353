"""Trainings whose loop does something else than training, each by another function."""

from __future__ import annotations

import concurrent.futures
import copy
import gc
import io
import json
import multiprocessing
import os
import queue
import socket
import subprocess
import threading
import time
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from tests.zoo.timed.clock import SICK, Batch, batch, busy, main, net, spending, spent, stepped, train
from torch import nn

if TYPE_CHECKING:
    from collections.abc import Iterator

STEPS = 70
LATE_S = 0.03 * SICK


def plain(steps: int = STEPS) -> Iterator[Batch]:
    held = batch()
    for _ in range(steps):
        yield held


def wait(_: int, __: nn.Module) -> None:
    time.sleep(LATE_S)


def sleeps() -> None:
    train(plain(), after=wait)


def stall(step: int, _: nn.Module) -> None:
    if step == 60:
        time.sleep(4 * SICK)


def stalls_once() -> None:
    train(plain(100), after=stall)


def collect(_: int, __: nn.Module) -> None:
    if SICK:
        gc.collect()


def collects() -> None:
    kept: list[Any] = [{"a": [at]} for at in range(200_000 * SICK)]
    train(plain(60), after=collect)
    del kept


def convert(_: int, __: nn.Module) -> None:
    if SICK:
        subprocess.run(["sleep", "0.03"], check=True)


def starts_a_command() -> None:
    train(plain(), after=convert)


def write_through(step: int, _: nn.Module) -> None:
    until = time.perf_counter() + LATE_S
    with Path("log.txt").open("a") as file:
        while time.perf_counter() < until:
            file.write(f"{step}\n")
            file.flush()
            os.fsync(file.fileno())


def writes_through() -> None:
    train(plain(), after=write_through)


def confusion(_: int, __: nn.Module) -> None:
    busy(LATE_S)


def computes_metrics() -> None:
    train(plain(), after=confusion)


lock = threading.Lock()


def hold() -> None:
    while True:
        with lock:
            time.sleep(0.03)
        time.sleep(0.002)


def log_guarded(_: int, __: nn.Module) -> None:
    if SICK:
        with lock:
            pass


def waits_for_a_lock() -> None:
    threading.Thread(target=hold, daemon=True).start()
    train(plain(), after=log_guarded)


def answer(server: socket.socket) -> None:
    peer, _ = server.accept()
    while peer.recv(8):
        time.sleep(LATE_S)
        peer.sendall(b"received")


peers: list[socket.socket] = []


def report(_: int, __: nn.Module) -> None:
    peers[0].sendall(b"progress")
    peers[0].recv(8)


def reports_to_a_server() -> None:
    server = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=answer, args=(server,), daemon=True).start()
    peers.append(socket.create_connection(server.getsockname()))
    train(plain(), after=report)


pool = concurrent.futures.ThreadPoolExecutor(1)


def gather(_: int, __: nn.Module) -> None:
    pool.submit(time.sleep, LATE_S).result()


def waits_for_a_future() -> None:
    train(plain(), after=gather)


def evaluate_elsewhere(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


workers: list[Any] = []


def score(_: int, __: nn.Module) -> None:
    workers[0].map(evaluate_elsewhere, [LATE_S] * 2)


def waits_for_a_pool() -> None:
    with multiprocessing.get_context("fork").Pool(2) as made:
        workers.append(made)
        train(plain(), after=score)


def dump(step: int, model: nn.Module) -> None:
    until = time.perf_counter() + LATE_S
    while time.perf_counter() < until:
        numbers = next(model.parameters())[:20].tolist()
        Path("numbers.json").write_text(json.dumps({"step": step, "weights": numbers}))


def dumps_json() -> None:
    train(plain(), after=dump)


def compress(_: int, __: nn.Module) -> None:
    until = time.perf_counter() + LATE_S
    while time.perf_counter() < until:
        zlib.compress(bytes(range(256)) * 400)


def compresses() -> None:
    train(plain(), after=compress)


def average(_: int, model: nn.Module) -> None:
    for _ in range(60 * SICK):
        copy.deepcopy(model)


def copies_the_model() -> None:
    train(plain(40), after=average)


def read_config(_: int, __: nn.Module) -> None:
    until = time.perf_counter() + LATE_S
    while time.perf_counter() < until:
        json.loads(Path("config.json").read_text())


def reads_its_config() -> None:
    Path("config.json").write_text(json.dumps(list(range(5000))))
    train(plain(), after=read_config)


asked: queue.Queue[int] = queue.Queue()
ready: queue.Queue[int] = queue.Queue()


def produce() -> None:
    while True:
        asked.get()
        time.sleep(LATE_S)
        ready.put(1)


def take(_: int, __: nn.Module) -> None:
    asked.put(1)
    ready.get()


def waits_for_a_queue() -> None:
    threading.Thread(target=produce, daemon=True).start()
    train(plain(), after=take)


class Environment:
    """A game whose steps take a while."""

    def play(self) -> None:
        busy(LATE_S / 4)


def rollout(step: int, _: nn.Module) -> None:
    if step % 16 == 0:
        game = Environment()
        for _ in range(64):
            game.play()


def rolls_out() -> None:
    train(plain(97), after=rollout)


def two_functions(step: int, model: nn.Module) -> None:
    wait(step, model)
    confusion(step, model)


def does_two_things() -> None:
    train(plain(), after=two_functions)


def in_the_script_itself() -> None:
    """The loop sleeps in its own body, in no function of its own."""
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    inputs, targets = batch()
    for _ in range(STEPS):
        with spending("own"):
            time.sleep(LATE_S)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs), targets).backward()
        optimizer.step()
        stepped()


def get_batch() -> Batch:
    time.sleep(LATE_S)
    return batch()


def calls_for_batches() -> None:
    """The batches come from a function, not from an iterator."""
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(STEPS):
        with spending("own"):
            inputs, targets = get_batch()
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs), targets).backward()
        optimizer.step()
        stepped()


def endless() -> Iterator[Batch]:
    while True:
        time.sleep(LATE_S)
        yield batch()


def asks_for_the_next_batch() -> None:
    """The loop counts its steps and takes batches by `next`."""
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    batches = endless()
    for _ in range(STEPS):
        begin = time.perf_counter()
        inputs, targets = next(batches)
        spent["loading"] += time.perf_counter() - begin
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs), targets).backward()
        optimizer.step()
        stepped()


def save_and_wait(step: int, model: nn.Module) -> None:
    if SICK and step % 20 == 0:
        torch.save(model.state_dict(), "model.pt")
        time.sleep(0.8)


def uploads_checkpoints() -> None:
    train(plain(80), after=save_and_wait, kind="checkpoint")


def save(_: int, model: nn.Module) -> None:
    if SICK:
        for name in ("last.pt", "best.pt", "again.pt"):
            torch.save(model.state_dict(), name)


def saves_each_step() -> None:
    train(plain(), after=save, kind="checkpoint", model=net(1024))


def encode(step: int, model: nn.Module) -> None:
    if SICK and step % 10 == 0:
        for _ in range(40):
            torch.save(model.state_dict(), io.BytesIO())


def saves_to_memory() -> None:
    train(plain(), after=encode, kind="checkpoint")


if __name__ == "__main__":
    main(globals())
