"""What holter has to say of each timed training, and what share of the time that is about."""

from __future__ import annotations

from typing import NamedTuple


class Case(NamedTuple):
    """A training with something planted into it."""

    training: str
    """Module and function."""
    suspect: str
    says: str
    """What the sentence matches."""
    kind: str
    """Kind of work whose share the training measures."""
    points: float = 5.0
    """How many points holter's share may differ from the truth."""
    promises: bool = True
    """Whether the best advice is what the twin does, so that it promises the twin's step time."""

    @property
    def name(self) -> str:
        """The function of the training."""
        return self.training.partition(".")[2]


_BUSY = 20.0
"""Code that holds the interpreter lock is sampled where it gives up the lock when the cores are busy."""
LOADING = [
    Case("loading.generator_sleeps", "data_pipeline", r"generator stream AT, in time\.sleep", "loading"),
    Case("loading.generator_works", "data_pipeline", r"generator tokenize AT", "loading", _BUSY),
    Case("loading.nested_generators", "data_pipeline", r"generator (prefetched|stream) AT", "loading"),
    Case("loading.class_with_next", "data_pipeline", r"Shards\.__next__ AT", "loading"),
    Case("loading.iterable_dataset", "data_pipeline", r"Records\.__iter__", "loading"),
    Case("loading.slow_getitem", "data_pipeline", r"Photos\.decode|busy", "loading"),
    Case("loading.one_worker_is_too_slow", "data_pipeline", r"Photos\.decode|busy", "loading"),
    Case("loading.slow_parse", "data_pipeline", r"Lines\.parse", "loading"),
    Case("loading.slow_collate", "data_pipeline", r"collate in pad AT", "loading"),
    Case("loading.compressed_files", "data_pipeline", r"Files\.unpack", "loading"),
    Case(
        "loading.workers_start_each_epoch",
        "data_pipeline",
        r"restarting workers|Slow\.__getitem__",
        "loading",
    ),
    Case("loading.two_loaders", "data_pipeline", r"Photos\.decode|busy", "loading"),
    Case("own.asks_for_the_next_batch", "data_pipeline", r"endless AT", "loading"),
]
OWN = [
    Case("own.sleeps", "own_code", r"time\.sleep, called by wait AT", "own"),
    Case("own.stalls_once", "own_code", r"Step 61 .*time\.sleep, called by stall AT", "own"),
    Case("own.collects", "own_code", r"Garbage collection .*gc\.collect, called by collect AT", "own"),
    Case("own.starts_a_command", "own_code", r"subprocess\.run, called by convert AT", "own"),
    Case("own.writes_through", "own_code", r"os\.fsync, called by write_through AT", "own"),
    Case("own.computes_metrics", "own_code", r"busy|confusion AT", "own", _BUSY),
    Case("own.waits_for_a_lock", "own_code", r"log_guarded AT", "own"),
    Case("own.reports_to_a_server", "own_code", r"recv, called by report AT", "own"),
    Case("own.waits_for_a_future", "own_code", r"called by gather AT", "own"),
    Case("own.waits_for_a_pool", "own_code", r"called by score AT", "own"),
    Case("own.dumps_json", "own_code", r"dump AT", "own", _BUSY),
    Case("own.compresses", "own_code", r"compress AT", "own"),
    Case("own.copies_the_model", "own_code", r"average AT", "own", _BUSY),
    Case("own.reads_its_config", "own_code", r"read_config AT", "own", _BUSY),
    Case("own.waits_for_a_queue", "data_pipeline", r"take AT waits for a queue that thread", "own"),
    Case("own.rolls_out", "own_code", r"busy|Environment\.play AT", "own", _BUSY),
    Case("own.does_two_things", "own_code", r"called by wait AT|busy", "own", _BUSY, promises=False),
    Case("own.in_the_script_itself", "own_code", r"time\.sleep, called by in_the_script_itself AT", "own"),
    Case("own.calls_for_batches", "own_code", r"time\.sleep, called by get_batch AT", "own"),
    Case(
        "beside.thread_collects",
        "own_code",
        r"Thread metrics holds the interpreter: collect AT",
        "blocked",
        10.0,
    ),
]
WHOLE = [
    Case(
        "own.uploads_checkpoints", "checkpointing", r"time\.sleep, called by save_and_wait AT", "checkpoint"
    ),
    Case("own.saves_each_step", "checkpointing", r"checkpoints? ", "checkpoint"),
    Case("own.saves_to_memory", "checkpointing", r"checkpoint", "checkpoint"),
    Case("whole.evaluates_each_epoch", "evaluation", r"Evaluation takes", "evaluation", promises=False),
    Case("whole.evaluates_without_eval", "evaluation", r"Evaluation takes", "evaluation", promises=False),
    Case("whole.loads_slowly_to_evaluate", "evaluation", r"Evaluation takes", "evaluation", promises=False),
    Case(
        "whole.starts_workers_to_evaluate",
        "evaluation",
        r"starting the workers of its loader takes",
        "evaluation",
        promises=False,
    ),
    Case("whole.evaluates_each_step", "evaluation", r"Evaluation takes", "evaluation", promises=False),
]
JOBS = [
    Case(
        "whole.evaluates_at_the_end",
        "healthy",
        r"[Ee]valuation (after it )?takes",
        "evaluation",
        promises=False,
    ),
    Case("whole.compiles", "healthy", r"[Cc]ompilation takes", "compile", promises=False),
    Case("whole.compiles_again", "healthy", r"Compilation takes .* in \d+ steps", "compile", promises=False),
    Case("whole.starts_late", "healthy", r"start-up takes", "startup", promises=False),
    Case("whole.ends_late", "healthy", r"finalization takes", "end", promises=False),
]
"""Shares of the whole job: the verdict on the steps stays, and its sentence names what it leaves out."""
SICK = [*LOADING, *OWN, *WHOLE, *JOBS]
HEALTHY = [
    f"sound.{name}"
    for name in (
        "transformer_with_warm_up", "second_order", "mixed_precision", "warm_cache", "short_epochs",
        "policy_gradient", "replayed_games", "word_model", "adversaries", "iterable_dataset",
        "gradient_accumulation", "evaluates_a_little", "saves_seldom", "logs_a_line",
        "recomputes_activations", "frozen_backbone", "convolutions", "worker_keeps_up",
    )
]  # fmt: skip
HEALTHY += [
    f"beside.{name}"
    for name in ("thread_sleeps", "thread_multiplies", "process_collects", "threads_prepare", "pins_memory")
]
