"""Trains torchtitan's debug model on the CPU in one of several ways; writes what it did to truth.json.

torchtitan takes a machine without an accelerator for one with CUDA: the script gives it the CPU in its place,
before the trainer is loaded. Everything else is torchtitan's own.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch.distributed.fsdp import FSDPModule
from torchtitan.tools import utils

torch.set_num_threads(1)
# As under a launcher with one rank.
for name, value in {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_PORT": "29514"}.items():
    os.environ.setdefault(name, value)
os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
utils.device_type = "cpu"
utils.device_module = SimpleNamespace(
    set_device=lambda device: None,
    current_device=lambda: 0,
    device_count=lambda: 1,
    synchronize=lambda: None,
    get_device_name=lambda device: "CPU",
    get_device_properties=lambda device: SimpleNamespace(total_memory=2**33),
    reset_peak_memory_stats=lambda: None,
    empty_cache=lambda: None,
    memory_stats=lambda device: {},
)
if not hasattr(torch.distributed, "set_timeout"):  # torchtitan 0.3.0 expects a torch after 2.13
    torch.distributed.set_timeout = torch.distributed.distributed_c10d._set_pg_timeout

from torchtitan.components.checkpoint import CheckpointManager  # noqa: E402
from torchtitan.components.dataloader import BaseDataLoader  # noqa: E402
from torchtitan.components.loss import CrossEntropyLoss  # noqa: E402
from torchtitan.components.metrics import BaseLogger, MetricsProcessor  # noqa: E402
from torchtitan.components.optimizer import LRSchedulersContainer, default_adamw  # noqa: E402
from torchtitan.components.tokenizer import BaseTokenizer  # noqa: E402
from torchtitan.config import DebugConfig, ParallelismConfig, TrainingConfig  # noqa: E402
from torchtitan.models.common.attention import ScaledDotProductAttention  # noqa: E402
from torchtitan.models.llama3 import model_registry  # noqa: E402
from torchtitan.observability import structured_logger  # noqa: E402
from torchtitan.tools.logging import init_logger  # noqa: E402
from torchtitan.trainer import Trainer  # noqa: E402

SEQUENCE, BATCH = 32, 4
truth: dict[str, Any] = {"steps": 0, "logged": []}
took: dict[str, float] = {"load": 0.0, "train": 0.0}


class Words(BaseTokenizer):
    """Stands for a tokenizer: the batches are numbers already."""

    @dataclass(kw_only=True, slots=True)
    class Config(BaseTokenizer.Config):
        """Nothing to choose."""

    def __init__(self, config: Config, **_: Any) -> None:
        super().__init__()

    def encode(self, *_: Any, **__: Any) -> list[int]:
        return []

    def decode(self, *_: Any, **__: Any) -> str:
        return ""

    def get_vocab_size(self) -> int:
        return 2048


class Numbers(BaseDataLoader):
    """Batches of random numbers, each of which takes a while to load."""

    @dataclass(kw_only=True, slots=True)
    class Config(BaseDataLoader.Config):
        """How long a batch takes, and how many there are."""

        seconds: float = 0.0
        batches: int = 10**6

    def __init__(self, config: Config, *, dp_rank: int, **_: Any) -> None:
        self.config, self.rank = config, dp_rank

    def __iter__(self) -> Iterator[tuple[dict[str, torch.Tensor], torch.Tensor]]:
        generator = torch.Generator().manual_seed(self.rank)
        for _ in range(self.config.batches):
            began = time.perf_counter()
            time.sleep(self.config.seconds)
            tokens = torch.randint(0, 2048, (BATCH, SEQUENCE + 1), generator=generator)
            took["load"] += time.perf_counter() - began
            yield {"input": tokens[:, :-1].contiguous()}, tokens[:, 1:].contiguous()

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        pass


class Kept(BaseLogger):
    """Keeps the metrics that torchtitan logs."""

    def log(self, metrics: dict[str, Any], step: int) -> None:
        truth["logged"].append({**metrics, "step": step})


class Clock(Trainer):
    """Measures the training steps, and ends the process group only when all is written."""

    @dataclass(kw_only=True, slots=True)
    class Config(Trainer.Config):
        """As torchtitan's."""

    def train_step(self, data_iterator: Any) -> None:
        began = time.perf_counter()
        super().train_step(data_iterator)
        took["train"] += time.perf_counter() - began
        truth["steps"] += 1


def configured(case: str) -> Any:
    """Return the configuration of a case: a small model of torchtitan, on the batches of this script."""
    model = model_registry("debugmodel")
    del model.model.layers[2:]
    for layer in model.model.layers:
        layer.attention.inner_attention = ScaledDotProductAttention.Config()  # the usual one needs a GPU
    rate = {"data": 0.25}.get(case, 0.0)
    return Clock.Config(
        model_spec=model,
        dump_folder=f"dump-{os.getpid()}",  # a new training finds no checkpoint
        loss=CrossEntropyLoss.Config(global_vocab_size=2048),
        tokenizer=Words.Config(),
        optimizer=default_adamw(lr=8e-4),
        lr_scheduler=LRSchedulersContainer.Config(warmup_steps=2),
        dataloader=Numbers.Config(seconds=rate, batches=7 if case == "short" else 10**6),
        metrics=MetricsProcessor.Config(log_freq=2, disable_color_printing=True),
        training=TrainingConfig(
            local_batch_size=BATCH,
            global_batch_size=2 * BATCH if case == "accumulated" else -1,
            seq_len=SEQUENCE,
            steps=12,
            mixed_precision_param="float32",
            disable_cuda_graphs=True,
        ),
        parallelism=ParallelismConfig(
            spmd_backend="partial_dtensor",  # the usual one needs a torch after 2.13 for several ranks
            tensor_parallel_degree=2 if case == "tensors" else 1,
        ),
        checkpoint=CheckpointManager.Config(enable=case == "plain", interval=6),
        activation_checkpoint=None,
        debug=DebugConfig(seed=5),
    )


if __name__ == "__main__":
    init_logger()
    config = configured(sys.argv[1])
    structured_logger.init_structured_logger(
        source="training", output_dir=config.dump_folder, enable=sys.argv[1] != "quiet"
    )
    trainer = config.build()
    for module in trainer.model_parts[0].modules():
        if isinstance(module, FSDPModule):
            module.set_force_sum_reduction_for_comms(True)  # gloo has no other sum
    trainer.metrics_processor.logger = Kept()
    began = time.perf_counter()
    trainer.train()
    truth["loop"] = time.perf_counter() - began
    truth["dump"] = config.dump_folder
    parts = [getattr(one, "_local_tensor", one) for one in trainer.model_parts[0].state_dict().values()]
    state = b"".join(one.detach().contiguous().numpy().tobytes() for one in parts)
    truth["model"] = hashlib.sha256(state).hexdigest()
    rank = torch.distributed.get_rank()
    Path("truth.json" if rank == 0 else f"truth-{rank}.json").write_text(json.dumps({**truth, "took": took}))
    trainer.close()
    time.sleep(0.5)  # else torch may abort as Python ends: pytorch/pytorch#190489
    torch.distributed.destroy_process_group()
