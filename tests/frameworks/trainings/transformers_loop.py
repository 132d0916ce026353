"""Trains with the Hugging Face Trainer in one of several ways; writes what it did to truth.json."""

from __future__ import annotations

import hashlib
import json
import sys
import time
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments, set_seed

torch.set_num_threads(1)
LENGTH = 32
truth: dict[str, Any] = {}
took = {"load": 0.0, "callback": 0.0, "evaluate": 0.0}


class Texts(Dataset):
    """Random texts, each of which takes a while to load, with targets of different lengths."""

    def __init__(self, count: int, seconds: float) -> None:
        generator = torch.Generator().manual_seed(3)
        self.words = torch.randint(0, 64, (count, LENGTH), generator=generator)
        self.seconds = seconds

    def __len__(self) -> int:
        return len(self.words)

    def __getitem__(self, at: int) -> dict[str, torch.Tensor]:
        began = time.perf_counter()
        if self.seconds:
            time.sleep(self.seconds)
        labels = self.words[at].clone()
        labels[2 + 5 * at % (LENGTH - 2) :] = -100
        took["load"] += time.perf_counter() - began
        return {"input_ids": self.words[at], "labels": labels}


class Slow(TrainerCallback):
    """Takes a while after each step."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def on_step_end(self, *_: Any, **__: Any) -> None:
        began = time.perf_counter()
        if self.seconds:
            time.sleep(self.seconds)
        took["callback"] += time.perf_counter() - began


class Clock(TrainerCallback):
    """Measures the loop."""

    def on_train_begin(self, *_: Any, **__: Any) -> None:
        took.update(dict.fromkeys(took, 0.0))
        self.began = time.perf_counter()

    def on_train_end(self, *_: Any, **__: Any) -> None:
        truth["loop"] = time.perf_counter() - self.began


class Evaluating(Trainer):
    """Measures evaluations."""

    def evaluate(self, *args: Any, **kwargs: Any) -> Any:
        began, loaded = time.perf_counter(), took["load"]
        found = super().evaluate(*args, **kwargs)
        took["evaluate"] += time.perf_counter() - began
        took["load"] = loaded
        return found


def train(case: str) -> Any:
    """Train in one way; return the model."""
    set_seed(5)
    wide = case == "compute"
    config = GPT2Config(
        vocab_size=64, n_positions=LENGTH, n_layer=2 if wide else 1, n_head=2, n_embd=256 if wide else 32,
        bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    arguments = TrainingArguments(
        "out",
        use_cpu=True,
        num_train_epochs=2,
        per_device_train_batch_size=4,
        per_device_eval_batch_size=8,
        gradient_accumulation_steps=3 if case == "accumulated" else 1,
        logging_steps=1,
        eval_strategy="steps",
        eval_steps=10,
        save_strategy="steps" if case == "plain" else "no",
        save_steps=15,
        report_to=[],
        disable_tqdm=True,
    )
    trainer = Evaluating(
        model=GPT2LMHeadModel(config),
        args=arguments,
        train_dataset=Texts(80, 0.004 if case == "data" else 0.0),
        eval_dataset=Texts(32, 0.0),
        callbacks=[Clock(), Slow(0.02 if case == "callback" else 0.0)],
    )
    listed = list(trainer.callback_handler.callbacks)
    trainer.train()
    assert trainer.callback_handler.callbacks == listed
    history = trainer.state.log_history
    truth["steps"] = trainer.state.global_step
    truth["losses"] = [one["loss"] for one in history if "loss" in one]
    truth["validation"] = [one["eval_loss"] for one in history if "eval_loss" in one]
    return trainer.model


if __name__ == "__main__":
    model = train(sys.argv[1])
    state = b"".join(one.numpy().tobytes() for one in model.state_dict().values())
    truth["model"] = hashlib.sha256(state).hexdigest()
    Path("truth.json").write_text(json.dumps({**truth, "took": took}))
