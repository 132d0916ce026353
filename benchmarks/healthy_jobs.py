"""The jobs of TrainCheck's healthy sets, and what is changed so that they run on a CPU without downloads."""

from __future__ import annotations

from typing import Any, NamedTuple


class Job(NamedTuple):
    """One job."""

    set: str
    """The set: fp_rate or false-positive."""
    folder: str
    command: tuple[str, ...]
    changed: str = "made data"
    """What is changed, in words."""
    changes: tuple[tuple[str, str], ...] = ()
    """Patterns and replacements in its files."""
    before: tuple[str, ...] = ()
    """What prepares its data."""
    env: dict[str, str] = {}  # noqa: RUF012 - nobody changes it

    @property
    def name(self) -> str:
        """The set and the folder."""
        return f"{self.set}/{self.folder}"


def _of_set(folder: str, *command: str, **about: Any) -> Job:
    return Job("fp_rate", folder, command, **about)


_LOAD = (r"torch\.load\((f|'traindata\.pt')\)", r"torch.load(\1, weights_only=False)")
_CPU_AMP = (
    (r"^    torch\.cuda\.\w+\(\)$", "    pass"),
    (r"torch\.cuda\.max_memory_allocated\(\)", "0"),
    (r"\)\.cuda\(\)", ")"),
    (r"torch\.cuda\.amp\.GradScaler\(", "torch.amp.GradScaler('cpu', "),
    (r"_size = 4096", "_size = 256"),
    (r"torch\.float16", "torch.bfloat16"),
)
_GLOO = (
    (r"^    torch\.cuda\.set_device\(rank\)\n", ""),
    ('"nccl"', '"gloo"'),
    (r"\.to\((self\.)?gpu_id\)", '.to("cpu")'),
    (r", device_ids=\[gpu_id\]", ""),
    (r"torch\.cuda\.device_count\(\)", "2"),
)
_CORA = (
    (r"^    with requests\.get.*\n.*\n.*extractall\(\)\n", ""),
    (r"^(\s*)with requests\.get.*\n.*\n.*extractall\(\)\n", r"\1pass\n"),
)
_NO_TERMINAL = (
    (r"^_, term_width = .*$", "term_width = 80"),
    (r"batch_size=128", "batch_size=32"),
)
_HUB = (
    (r"^( +)send_example_telemetry\(.*$", r"\1pass"),
    (r", send_example_telemetry", ""),
    (r"^ +from_tf=.*\n", ""),
    (r"if step == 10:", "if step == 40:"),
    # Names that later versions of the libraries have changed.
    (r"import Repository, create_repo", "import create_repo"),
    (r"DistributedType\.TPU", "DistributedType.XLA"),
)
_SMALL = "small model from scratch, made text"


def _words(folder: str, *options: str, set_: str = "false-positive") -> Job:
    command = ("main.py", *options)
    changed = "`--cuda` left out, 1,200 lines of text"
    return Job(set_, folder, command, changed, (_LOAD,), ("-m", "made", "sentences"))


def _transformer(
    folder: str, script: str, *options: str, kind: str = "gpt2", launch: tuple[str, ...] = ()
) -> Job:
    config = ("--config_name", "small", "--tokenizer_name", "small", "--output_dir", "out")
    texts = ("--train_file", "train.txt", "--validation_file", "valid.txt")
    sizes = ("--per_device_train_batch_size", "2", "--per_device_eval_batch_size", "2")
    command = (*launch, script, *config, *texts, *sizes, *options)
    prepare = ("-m", "made", "language_model", kind)
    return Job("false-positive", f"Transformers/{folder}", command, _SMALL, _HUB, prepare)


def _accelerate(*options: str) -> tuple[str, ...]:
    return ("-m", "accelerate.commands.launch", "--cpu", *options)


JOBS = [
    _of_set("autocast", "main.py", changed="CPU, bfloat16, 256 features", changes=_CPU_AMP),
    _of_set(
        "dcgan",
        "main.py",
        "--dataset",
        "mnist",
        "--dataroot",
        "mnist",
        "--workers",
        "0",
        "--niter",
        "1",
        "--ngf",
        "16",
        "--ndf",
        "16",
        changed="made data, 16 filters",
    ),
    _of_set(
        "ddp-multigpu",
        "multigpu.py",
        "--batch_size",
        "8",
        "4",
        "2",
        changed="gloo, two ranks, CPU",
        changes=_GLOO,
        env={"USE_LIBUV": "0"},
    ),
    _of_set(
        "gat",
        "main.py",
        "--epochs",
        "30",
        "--num-heads",
        "2",
        changed="made graph",
        changes=_CORA,
        before=("-m", "made", "papers"),
    ),
    _of_set(
        "gcn",
        "main.py",
        "--epochs",
        "100",
        changed="made graph",
        changes=_CORA,
        before=("-m", "made", "papers"),
    ),
    _of_set("mnist", "main.py", "--epochs", "2"),
    _of_set(
        "mnist-forward-forward",
        "main.py",
        "--epochs",
        "60",
        "--train_size",
        "256",
        "--test_size",
        "256",
        changes=((r"^from torchvision\.datasets import MNIST", "from made import MNIST"),),
    ),
    _of_set("mnist-hogwild", "main.py", "--epochs", "1", "--num-processes", "0"),
    _of_set("mnist-rnn", "main.py", "--epochs", "4", "--test-batch-size", "100"),
    _of_set("regression", "main.py", changed="nothing"),
    _of_set(
        "reinforce-actor-critic",
        "actor_critic.py",
        "--log-interval",
        "100",
        changed="gymnasium, 100 episodes",
    ),
    _of_set(
        "reinforce-reinforce", "reinforce.py", "--log-interval", "100", changed="gymnasium, 100 episodes"
    ),
    _of_set(
        "resnet18",
        "main.py",
        "--dummy",
        "--epochs",
        "2",
        "--batch-size",
        "8",
        "-j",
        "0",
        changed="80 and 16 images",
        changes=((r"1281167", "80"), (r"\b50000,", "16,")),
    ),
    _of_set("siamese-network", "main.py", "--epochs", "2", "--test-batch-size", "100"),
    _of_set(
        "time-sequence-prediction",
        "train.py",
        "--steps",
        "4",
        changed="nothing",
        changes=(_LOAD,),
        before=("generate_sine_wave.py",),
    ),
    _of_set("vae", "main.py", "--epochs", "8"),
    _words("word-language-model-lstm", "--epochs", "1", "--tied", set_="fp_rate"),
    _words(
        "word-language-model-transformer",
        "--epochs",
        "1",
        "--model",
        "Transformer",
        "--lr",
        "5",
        set_="fp_rate",
    ),
    *(
        Job("false-positive", f"CNN/{folder}", ("main.py", "--epochs", epochs))
        for folder, epochs in (
            ("trainset/MNIST-1epo", "1"),
            ("trainset/MNIST-3epo", "3"),
            ("trainset/MNIST-3epo-larger-model", "2"),
            ("trainset/MNIST-3epo-CIFAR10", "2"),
            ("validset/MNIST-FashionMNIST", "3"),
            ("validset/MNIST-HighRes-CIFAR10", "2"),
            ("validset/MNIST-Longer", "4"),
        )
    ),
    *(
        Job(
            "false-positive",
            f"CNN/validset/pytorch-cifar-{net}",
            ("main.py",),
            "made data, batches of 32",
            _NO_TERMINAL,
            env={"MADE_TRAIN": "960"},
        )
        for net in ("EfficientNet", "ResNet18", "VGG11")
    ),
    _words("RNN/trainset/word_language_model-RNN_TANH-1epo", "--model", "RNN_TANH", "--epochs", "1"),
    _words("RNN/trainset/word_language_model-RNN_TANH-3epo", "--model", "RNN_TANH", "--epochs", "3"),
    _words("RNN/validset/word_language_model-GRU-3epo", "--model", "GRU", "--epochs", "3"),
    _words("RNN/validset/word_language_model-LSTM-3epo", "--model", "LSTM", "--epochs", "1"),
    _words("RNN/validset/word_language_model-RNN_RELU-3epo", "--model", "RNN_RELU", "--epochs", "3"),
    _words("RNN/validset/word_language_model-RNN_TANH-Longer", "--model", "RNN_TANH", "--epochs", "5"),
    _words(
        "RNN/validset/word_language_model-RNN_TANH-different-hyperparam",
        "--model",
        "RNN_TANH",
        "--epochs",
        "3",
        "--tied",
        "--lr",
        "15",
        "--clip",
        "1",
        "--bptt",
        "40",
        "--dropout",
        "0.1",
        "--nlayers",
        "3",
    ),
    *(
        _transformer(
            f"{part}/language-modeling-{name}",
            "run_clm_no_trainer.py",
            "--num_train_epochs",
            epochs,
            launch=launch,
        )
        for part, name, epochs, launch in (
            ("trainset", "gpt2-88m-1epo", "1", ()),
            ("trainset", "gpt2-88m-3epo", "3", ()),
            ("trainset", "gpt2-88m-3epo-accelerate-naive", "2", _accelerate()),
            ("trainset", "gpt2-88m-3epo-fp16", "2", _accelerate("--mixed_precision", "bf16")),
            ("validset", "gpt2-137m-3epo", "2", ()),
            ("validset", "gpt2-137m-3epo-bf16", "2", _accelerate("--mixed_precision", "bf16")),
            (
                "validset",
                "gpt2-137m-3epo-distributed",
                "2",
                _accelerate("--num_processes", "2"),
            ),
            ("validset", "gpt2-88m-10epo", "5", ()),
        )
    ),
    _transformer(
        "validset/language-modeling-fim-gpt2-88m-3epo",
        "run_fim_no_trainer.py",
        "--num_train_epochs",
        "2",
        "--fim_rate",
        "0.5",
        "--fim_spm_rate",
        "0.2",
    ),
    _transformer(
        "validset/language-modeling-mlm-roberta-base-3epo",
        "run_mlm_no_trainer.py",
        "--num_train_epochs",
        "2",
        "--max_seq_length",
        "64",
        kind="roberta",
    ),
]
"""All 45 jobs."""
