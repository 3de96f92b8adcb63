"""A sweep that trains in a second: made-up words, a tiny model, two runs per cohort.

All tests that train share one signature and one size of cohort, so that its programs are compiled once.
"""

import io
import json
import os
import random
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import safetensors.numpy
from rich.console import Console

from jaxmatch.config.settings import default_config
from jaxmatch.sweep import launch
from jaxmatch.sweep.display import Display
from jaxmatch.sweep.sweep import Sweep
from jaxmatch.sweep.tune import Space, space_of
from jaxmatch.training.cohort import Cohort

WORDS = ("ba", "bo", "bu", "da", "do", "du", "ka", "ko", "ku", "ma", "mo", "mu")
PAIRS = {"train": 64, "dev": 32, "test": 32}
DIMENSIONS = 8

# A learning rate at which every run diverges in its second step.
DIVERGING = 1e30

SWEEP = '''"""A small sweep."""

from jaxmatch.config.settings import default_config, with_overrides
from jaxmatch.sweep.sweep import Sweep
from jaxmatch.reporting.layout import TableLayout


def get_sweep() -> Sweep:
    config = with_overrides(
        default_config(),
        {
            "model.blocks": 1,
            "model.encoder_layers": 1,
            "model.hidden_size": 8,
            "model.alignment": "identity",
            "model.fusion": "simple",
            "model.prediction": "simple",
            "data.name": "own",
            "training.batch_size": 16,
            "training.epochs": 3,
            "training.maximum_buckets": 1,
            "training.patience_samples": 0,
            "optimizer.dropout_rate": 0.1,
            "execution.checkpoint_seconds": 0.0,
        },
    )
    return Sweep(
        name="small",
        config=config,
        grid={"optimizer.learning_rate": (0.01, 1e30)},
        seeds=(0,),
        table=TableLayout(
            title="A small sweep", rows=("optimizer.learning_rate",), scores=("dev.accuracy", "test.accuracy")
        ),
    )
'''


def write_files(folder: Path) -> Path:
    """Writes pairs, vectors and the sweep file, and returns the folder.

    The label of a pair is "yes" if the second sentence contains the first word of the first sentence.
    """
    generator = random.Random(0)
    folder.mkdir(parents=True, exist_ok=True)
    for split, pairs in PAIRS.items():
        lines = ["text_a\ttext_b\tlabel"]
        for number in range(pairs):
            a = generator.sample(WORDS, 3 + number % 3)
            b = generator.sample([word for word in WORDS if word != a[0]], 3 + number // 2 % 3)
            if number % 2:
                b[generator.randrange(len(b))] = a[0]
            lines.append(f"{' '.join(a)}\t{' '.join(b)}\t{'yes' if number % 2 else 'no'}")
        (folder / f"{split}.tsv").write_text("\n".join(lines) + "\n")
    rows = ([word, *(f"{generator.uniform(-1, 1):.4f}" for _ in range(DIMENSIONS))] for word in WORDS)
    (folder / "vectors.txt").write_text("".join(" ".join(row) + "\n" for row in rows))
    (folder / "small.py").write_text(SWEEP)
    return folder


def overrides(files: Path) -> dict[str, str]:
    """Returns the settings that name the locations of the files."""
    return {
        "data.directory": str(files),
        "data.vectors": str(files / "vectors.txt"),
        "execution.cache_directory": str(files / "cache"),
    }


class Watcher(Display):
    """A display that shows nothing and notes which cohorts are trained.

    Attributes:
      trained: for each cohort that was trained, the names of its runs.
      text: the text that would have been shown.
    """

    def __init__(self):
        self._text = io.StringIO()
        super().__init__(Console(file=self._text, width=200))
        self.trained: list[tuple[str, ...]] = []

    @property
    def text(self) -> str:
        return self._text.getvalue()

    def cohort(self, folder, dropped):
        self.trained.append(folder.runs)
        return super().cohort(folder, dropped)


class Stop(BaseException):
    """Simulates a kill."""


class StopAt(Watcher):
    """Raises `Stop` in the n-th call of one of its methods."""

    def __init__(self, method, count):
        super().__init__()
        self._left = count
        self._method = method
        self._stop_in(self)

    def _stop_in(self, shown):
        before = getattr(shown, self._method, None)

        def call(*arguments):
            self._left -= 1
            if not self._left:
                raise Stop
            return before(*arguments)

        if before:
            setattr(shown, self._method, call)

    def cohort(self, folder, dropped):
        shown = super().cohort(folder, dropped)
        self._stop_in(shown)
        return shown


def fail_training(monkeypatch: pytest.MonkeyPatch, error: BaseException, times: int = 1, after: int = 0) -> list:
    """Makes `times` trainings of cohorts fail, after `after` trainings that do not. Returns a list to which each
    training, when it begins, appends the epoch that it trains until.
    """
    real, until = Cohort.train, []

    def train(*arguments, **options):
        until.append(options["until"])
        if after < len(until) <= after + times:
            raise error
        return real(*arguments, **options)

    monkeypatch.setattr(Cohort, "train", train)
    return until


def launched(files: Path, workdir: Path, **arguments: Any) -> tuple[str, Watcher]:
    """Launches the small sweep. Returns its table and the watcher, which notes what was trained."""
    watcher = Watcher()
    arguments["overrides"] = overrides(files) | arguments.get("overrides", {})
    text = launch.sweep(files / "small.py", workdir=workdir, display=watcher, **arguments)
    return text, watcher


def space(given: Mapping[str, str], **arguments: Any) -> Space:
    """Returns the space of a sweep with the default settings."""
    return space_of(Sweep("s", default_config(), **arguments), given)


def command(files: Path, workdir: Path, *words: str) -> list[str]:
    """Returns the words of the command that launches the small sweep."""
    settings = [f"--config.{name}={value}" for name, value in overrides(files).items()]
    return ["sweep", str(files / "small.py"), "--workdir", str(workdir), *settings, *words]


def start(words: list[str], *program: str, **variables: str) -> subprocess.Popen:
    """Starts `python -m jaxmatch` (or another program) with the given words."""
    tests = Path(__file__).parent
    return subprocess.Popen(
        [sys.executable, *(program or ("-m", "jaxmatch")), *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tests.parent), str(tests)]), **variables},
    )


def on_devices(number: int, words: list[str], *program: str) -> tuple[str, str]:
    """Runs a program as `start` does, on `number` CPU devices. Returns its standard output and standard error. The
    program must succeed.
    """
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={number}"
    process = start(words, *program, XLA_FLAGS=flags, JAX_PLATFORMS="cpu")
    output, errors = process.communicate(timeout=500)
    assert process.returncode == 0, errors[-3000:]
    return output, errors


def refuse(constant: str):
    raise ValueError(f"{constant} is not JSON")


def records(workdir: Path) -> dict[str, dict[str, Any]]:
    """Returns all records of a folder by run name. NaN and infinity, which are not JSON, are errors."""
    return {
        file.parent.name: json.loads(file.read_text(), parse_constant=refuse)
        for file in sorted((workdir / "runs").glob("[!.]*/record.json"))
    }


def results(workdir: Path) -> dict[str, tuple[Mapping[str, Any], Mapping[str, bytes]]]:
    """Returns what must not depend on interruptions: records without times, and the bytes of every model parameter.

    The commit is left out as well, because it may change while the tests run.
    """
    found = {}
    for run, record in records(workdir).items():
        kept = {name: value for name, value in record.items() if name not in ("times", "commit")}
        parameters = {}
        if (workdir / "runs" / run / "model").exists():
            arrays = safetensors.numpy.load_file(workdir / "runs" / run / "model" / "parameters.safetensors")
            parameters = {name: array.tobytes() for name, array in arrays.items()}
        found[run] = (kept, parameters)
    return found
