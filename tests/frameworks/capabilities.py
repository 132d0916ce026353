"""What holter may record of a framework: the columns of docs/reference/frameworks.md.

A test claims with `@pytest.mark.capability(FRAMEWORK, *CAPABILITIES, **DETAILS)` that it checks them; a
detail is the name of a capability with some words about it, such as `parts="compute, evaluation"`. A new
framework needs such markers only.
"""

from __future__ import annotations

CAPABILITIES = {
    "steps": ("steps", "The number of recorded steps is exactly that of the training."),
    "parts": ("parts", "Parts of a step; their shares agree with a clock inside the script."),
    "epochs": ("epochs", "Begins of epochs."),
    "numbers": ("numbers", "Losses and metrics have the values that the training itself reports."),
    "evaluation": ("evaluation", "Evaluations are apart from the training."),
    "checkpoints": ("checkpoints", "Time and size of checkpoints."),
    "callbacks": (
        "callbacks",
        "Callbacks have names: by class, or by function and line where they are slow.",
    ),
    "tensors": ("tensors", "What `--save` saves."),
    "windows": ("windows", "Windows of a profiler."),
    "ranks": ("ranks", "Several ranks."),
    "learning": ("learning", "The rules about learning judge the training."),
    "verdict": ("verdict", "A training that waits for data and one that computes get their verdicts."),
    "identical": ("identical", "Weights or the bytes of the model are identical with and without holter."),
    "cost": ("cost", "A benchmark measures what recording costs; its page has the numbers."),
}
"""Name in a marker → heading of the column, and what it means."""
