"""Trains with DeepSpeed in one of several ways; writes what it did, by its own clock, to truth.json."""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

os.environ["DS_ACCELERATOR"] = "cpu"
for name, value in {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_PORT": "29513"}.items():
    os.environ.setdefault(name, value)
os.environ.setdefault("MASTER_ADDR", "127.0.0.1")

import deepspeed  # noqa: E402
import torch  # noqa: E402
from deepspeed.pipe import PipelineModule  # noqa: E402
from own_loop import Clock  # noqa: E402
from torch import nn  # noqa: E402
from torch.utils.data import DataLoader, Dataset  # noqa: E402

torch.set_num_threads(1)
# It takes minutes to compile, and only inference calls it.
deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
EPOCHS, BATCH, CLASSES = 2, 4, 4
WARM = 10
"""Steps that are not timed: they show what torch, DeepSpeed and the recorder do once."""
truth: dict[str, Any] = {"losses": [], "evaluated": [], "steps": 0}
clock = Clock("load", "forward", "backward", "step", "evaluate", "save")


class Points(Dataset):
    """Points with classes, each of which takes a while to load."""

    def __init__(self, count: int, seconds: float = 0.0) -> None:
        generator = torch.Generator().manual_seed(3 + RANK)
        self.x = torch.randn(count, 64, generator=generator)
        self.y = torch.randint(0, CLASSES, (count,), generator=generator)
        self.seconds = seconds

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, at: int) -> Any:
        if self.seconds:
            time.sleep(self.seconds)
        return self.x[at], self.y[at]


class Net(nn.Module):
    """A classifier with dropout, and parameters of two kinds."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.body = nn.Linear(64, width)
        self.norm = nn.LayerNorm(width)
        self.inner = nn.Linear(width, width)
        self.drop = nn.Dropout(0.1)
        self.head = nn.Linear(width, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = torch.relu(self.norm(self.body(x.to(self.body.weight.dtype))))
        return self.head(self.drop(torch.relu(self.inner(hidden))))


def configuration(case: str, accumulated: int) -> dict[str, Any]:
    """Return the configuration of DeepSpeed for a case such as `zero2`."""
    stage = int(case[4]) if case.startswith("zero") else 0
    found: dict[str, Any] = {
        "train_micro_batch_size_per_gpu": BATCH,
        "gradient_accumulation_steps": accumulated,
        "gradient_clipping": 1.0,
        "steps_per_print": 1000,
        "zero_optimization": {"stage": stage, "stage3_param_persistence_threshold": 0},
        "zero_allow_untested_optimizer": True,
    }
    if case.endswith("bf16"):
        found["bf16"] = {"enabled": True}
    return found


def grouped(model: nn.Module) -> list[dict[str, Any]]:
    """Return two groups of parameters, as trainings that decay weights have them."""
    matrices = [one for one in model.parameters() if one.dim() > 1]
    vectors = [one for one in model.parameters() if one.dim() < 2]
    return [{"params": matrices, "weight_decay": 0.01}, {"params": vectors, "weight_decay": 0.0}]


def evaluate(engine: Any, loader: DataLoader) -> None:
    """Evaluate and switch back."""
    engine.eval()
    losses = []
    with torch.no_grad():
        for x, y in loader:
            losses.append(nn.functional.cross_entropy(engine(x).float(), y).item())
    truth["evaluated"].append(sum(losses) / len(losses))
    engine.train()


def passes(engine: Any, batches: Any) -> None:
    """Train with batches of an iterator until it ends."""
    while True:
        with clock.timed("load"):
            batch = next(batches, None)
        if batch is None:
            return
        with clock.timed("forward"):
            loss = nn.functional.cross_entropy(engine(batch[0]).float(), batch[1])
            truth["losses"].append(loss.item())
        with clock.timed("backward"):
            engine.backward(loss)
        with clock.timed("step"):
            before = engine.global_steps
            engine.step()
        if engine.global_steps > before:
            clock.stepped()
            if engine.global_steps == WARM:
                clock.restart(WARM)


def plain(case: str) -> Any:
    """Train with the loop that DeepSpeed's manual shows; return the model."""
    accumulated = 1 if case in ("data", "compute") else 2
    model = Net(768 if case == "compute" else 512 if "clock" in case else 32)
    slow = 0.004 if case == "data" else 0.001 if "clock" in case else 0.0
    data, test = Points(160, slow), Points(32, slow)
    optimizer = torch.optim.AdamW(grouped(model), lr=1e-3)
    own = {"training_data": data} if case == "own_loader" else {}
    engine, _, loader, _ = deepspeed.initialize(
        model=model, optimizer=optimizer, config=configuration(case, accumulated), **own
    )
    loader = loader or DataLoader(data, batch_size=BATCH)
    for epoch in range(EPOCHS):
        if case == "left_in_eval":
            engine.eval()
        passes(engine, iter(loader))
        if epoch == EPOCHS - 1:  # what follows the last step lies in none
            truth.update(clock.end())
        with clock.timed("evaluate"):
            evaluate(engine, DataLoader(test, batch_size=8))
        if case != "compute" and case != "data":
            with clock.timed("save"):
                engine.save_checkpoint("saved", tag=f"epoch{epoch}")
    truth["steps"], truth["skipped"] = engine.global_steps, engine.skipped_steps
    return engine


def resumed(case: str) -> Any:
    """Go on from a checkpoint of `plain`, in a new process."""
    model = Net(32)
    optimizer = torch.optim.AdamW(grouped(model), lr=1e-3)
    engine = deepspeed.initialize(model=model, optimizer=optimizer, config=configuration(case, 2))[0]
    assert engine.load_checkpoint("saved")[0]
    before = engine.global_steps
    passes(engine, iter(DataLoader(Points(160), batch_size=BATCH)))
    truth["steps"] = engine.global_steps - before
    return engine


def several(case: str) -> Any:
    """Train two engines in turn in each iteration, as for a GAN."""
    engines = []
    for width in (16, 32):
        model = Net(width)
        optimizer = torch.optim.AdamW(grouped(model), lr=1e-3)
        config = configuration("zero1", 1)
        engines.append(deepspeed.initialize(model=model, optimizer=optimizer, config=config)[0])
    for x, y in DataLoader(Points(160), batch_size=BATCH):
        for engine in engines:
            engine.backward(nn.functional.cross_entropy(engine(x), y))
            engine.step()
        truth["steps"] += 1
    return engines[1]


def pipeline(case: str) -> Any:
    """Train a pipeline with as many stages as there are ranks."""
    layers = [nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, CLASSES)]
    model = PipelineModule(layers, num_stages=WORLD, loss_fn=nn.CrossEntropyLoss())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    own = {"training_data": Points(160)} if case == "pipeline_own_loader" else {}
    engine = deepspeed.initialize(model=model, optimizer=optimizer, config=configuration(case, 4), **own)[0]
    loader = DataLoader(Points(160, 0.001), batch_size=BATCH)
    test = DataLoader(Points(16 * BATCH), batch_size=BATCH)
    for _ in range(EPOCHS):
        batches = iter(loader)
        for _ in range(10):
            truth["losses"].append(float(engine.train_batch(None if own else batches)))
        truth["evaluated"].append(float(engine.eval_batch(iter(test))))
    engine.save_checkpoint("saved", tag="end")
    truth["steps"] = engine.global_steps
    return engine


def closed(case: str) -> Any:
    """Stop the recorder in the middle of a training; note which hooks are left."""
    from holter.recorder import session
    from holter.recorder.patches import PASSED_OVER

    engine = plain("zero2")
    assert session.current is not None
    session.current.close()
    owners = [
        *type(engine).__mro__[:1],
        deepspeed.PipelineEngine,
        deepspeed.runtime.base_optimizer.ZeROOptimizer,
        deepspeed.runtime.zero.partition_parameters.AllGatherHandle,
        deepspeed.runtime.pipe.p2p,
        deepspeed.runtime.engine,
    ]
    functions = [(name, one) for owner in owners for name, one in vars(owner).items() if callable(one)]
    codes = [(name, getattr(one, "__code__", None)) for name, one in functions]
    truth["left"] = [name for name, code in codes if code and code.co_filename.endswith(PASSED_OVER)]
    passes(engine, iter(DataLoader(Points(160), batch_size=BATCH)))
    return engine


def trainer(case: str) -> Any:
    """Train with the Hugging Face Trainer, which uses DeepSpeed; return the engine."""
    from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

    words = torch.randint(0, 64, (96, 32), generator=torch.Generator().manual_seed(3))
    rows = [{"input_ids": row, "labels": row} for row in words]
    config = GPT2Config(
        vocab_size=64, n_positions=32, n_layer=1, n_head=2, n_embd=32, bos_token_id=0, eos_token_id=0
    )
    arguments = TrainingArguments(
        "out",
        use_cpu=True,
        num_train_epochs=2,
        per_device_train_batch_size=BATCH,
        gradient_accumulation_steps=2,
        logging_steps=1,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
        deepspeed={
            "train_micro_batch_size_per_gpu": "auto",
            "gradient_accumulation_steps": "auto",
            "zero_optimization": {"stage": 2},
            "zero_force_ds_cpu_optimizer": False,
        },
    )
    made = Trainer(model=GPT2LMHeadModel(config), args=arguments, train_dataset=rows)
    made.train()
    truth["losses"] = [one["loss"] for one in made.state.log_history if "loss" in one]
    truth["steps"] = made.state.global_step
    return made.deepspeed or made.model_wrapped


WAYS = {"resumed": resumed, "several": several, "pipeline": pipeline, "trainer": trainer, "closed": closed}

if __name__ == "__main__":
    case = next(one for one in sys.argv[1:] if not one.startswith("--"))
    deepspeed.init_distributed(dist_backend="gloo")
    torch.manual_seed(5)
    way = next((WAYS[name] for name in WAYS if case.startswith(name)), plain)
    engine = way(case.removeprefix("resumed_"))
    stage = engine.zero_optimization_stage()
    with deepspeed.zero.GatheredParameters(list(engine.module.parameters()), enabled=stage == 3):
        state = b"".join(one.detach().float().numpy().tobytes() for one in engine.module.parameters())
    truth["model"] = hashlib.sha256(state).hexdigest()
    name = f"truth-{RANK}.json" if RANK else "truth.json"
    Path(name).write_text(json.dumps(truth))
    deepspeed.comm.destroy_process_group()
