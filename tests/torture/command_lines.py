"""Settings, and words of a command line, that make no sense."""

import random
from pathlib import Path

from torture import judge
from torture.attacks import Attack
from torture.bench import Bench
from torture.processes import run_command

SETTINGS = (
    "model.name",
    "model.blocks",
    "model.hidden_size",
    "model.encoder_layers",
    "model.kernel_size",
    "model.alignment",
    "model.fusion",
    "model.none",
    "data.name",
    "data.directory",
    "data.vectors",
    "data.task",
    "data.tokenizer",
    "data.minimum_count",
    "data.maximum_length",
    "training.batch_size",
    "training.epochs",
    "training.maximum_buckets",
    "training.patience_samples",
    "optimizer.learning_rate",
    "optimizer.dropout_rate",
    "execution.maximum_replicas",
    "execution.checkpoint_seconds",
    "execution.cache_directory",
    "nothing",
)
VALUES = ("", "-1", "0", "1e400", "nan", "x", "None", "[]", "10" * 30, "(1,", "{}", "0.5")

COMMANDS = (
    "sweep",
    "train",
    "tune",
    "table",
    "report",
    "evaluate",
    "ensemble",
    "timing",
    "predict",
    "inspect",
    "occlusion",
    "figure",
    "data",
)
WORDS = (
    [],
    ["FOLDER/none"],
    ["FOLDER"],
    ["/dev/null"],
    ["/dev/zero"],
    ["--nothing"],
    ["FOLDER/" + "n" * 300],
    [""],
    ["\x1b[31m"],
    ["FOLDER", "--workdir"],
)


def _setting(bench: Bench, name: str, value: str):
    """A setting given by name that makes no sense, or does."""

    def make(folder: Path, generator: random.Random) -> str:
        end = run_command([*bench.sweep(folder / "workdir"), f"--config.{name}={value}", "--dry-run"], folder)
        if end.status == 0:  # the plan stands on the error stream
            return judge.leftover_files(folder) or ("a dry run wrote" if (folder / "workdir").exists() else "")
        last = name.rpartition(".")[2]
        return judge.refused(
            end, [name, last, last.replace("_", " "), *([value[:50]] if value else ["''"])]
        ) or judge.leftover_files(folder)

    return make


def _words(bench: Bench, words: list[str]):
    """Words that are no command; argparse shows the usage as well."""

    def make(folder: Path, generator: random.Random) -> str:
        end = run_command([word.replace("FOLDER", str(folder)) for word in words], folder)
        if "usage:" in end.errors and end.status == judge.REFUSED:
            return ""
        return judge.refused(end)

    return make


def attacks(bench: Bench) -> list[Attack]:
    """Each value for each setting, and each ending for each command."""
    settings = [
        Attack(f"inputs/setting {setting}={value[:10]}/0", _setting(bench, setting, value))
        for setting in SETTINGS
        for value in VALUES
    ]
    words = [
        Attack(f"inputs/words of {command}, {number}/0", _words(bench, [command, *words]))
        for command in COMMANDS
        for number, words in enumerate(WORDS)
    ]
    return settings + words
