"""The listeners of docs/how_to/follow.md, tested with fakes of W&B and tensorboardX."""

import contextlib
import io
import re
import sys
import types
from pathlib import Path

import pytest

from jaxmatch.sweep.display import FollowedRun

PAGE = Path(__file__).parent.parent / "docs" / "how_to" / "follow.md"
RUN = FollowedRun("abc-seed0", "small", Path("runs/abc-seed0"), 0, {}, {"model": {"name": "re2"}})
RECORD = {"status": "finished", "test": {"accuracy": 0.75}, "selected_at_samples": 20}


def evaluation(samples: int) -> dict:
    return {"samples": samples, "epoch": 1.0, "train_loss": 0.5, "learning_rate": 0.1, "dev": {"accuracy": 0.7}}


class Wandb(types.ModuleType):
    """A stand-in for W&B that keeps what is logged. Like W&B, it drops earlier steps."""

    def __init__(self):
        super().__init__("wandb")
        self.inits, self.logged, self.summary, self.exits = [], {}, {}, []

    def init(self, **options):
        assert options["resume"] == "allow" and options["reinit"] == "create_new"
        self.inits.append((options["project"], options["id"]))
        return self

    def log(self, values, step):
        if step > max(self.logged, default=-1):
            self.logged[step] = values

    def finish(self, exit_code):
        self.exits.append(exit_code)


@pytest.fixture
def wandb(monkeypatch):
    module = Wandb()
    monkeypatch.setitem(sys.modules, "wandb", module)
    return module


def listener(name: str):
    """Returns a listener of the page."""
    names = {}
    for code in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL):
        if code.startswith("import jaxmatch") or f"class {name}" in code:
            exec(compile(code, PAGE.name, "exec"), names)
    return names[name]()


def interrupted_and_resumed(name: str) -> None:
    """Calls a listener for two evaluations, an interruption before the second was saved, and a second process."""
    for curve, samples, record in (([], (10, 20), None), ([evaluation(10)], (20, 30), RECORD)):
        follower = listener(name)
        follower.started(RUN, curve)
        for number in samples:
            follower.evaluated(RUN, evaluation(number))
        follower.ended(RUN, record)


def test_wandb_listener_resumes_without_repeating_steps(wandb):
    interrupted_and_resumed("WandB")
    assert wandb.inits == [("small", "abc-seed0")] * 2 and wandb.exits == [1, 0]
    assert list(wandb.logged) == [10, 20, 30] and wandb.logged[30] == {"train/loss": 0.5, "dev/accuracy": 0.7}
    assert wandb.summary == {"test/accuracy": 0.75}


def test_tensorboard_listener_replaces_the_points_that_are_computed_again(monkeypatch):
    points = {}

    class SummaryWriter:
        """A stand-in for that of tensorboardX: `purge_step` drops earlier points from this step on."""

        def __init__(self, folder, purge_step, filename_suffix):
            self.points = points[folder] = [each for each in points.get(folder, ()) if each[1] < purge_step]

        def add_scalar(self, name, value, step):
            self.points.append((name, step, value))

        def close(self):
            self.points = None

    monkeypatch.setitem(sys.modules, "tensorboardX", types.SimpleNamespace(SummaryWriter=SummaryWriter))
    interrupted_and_resumed("TensorBoard")
    evaluated = [
        (name, step, value) for step in (10, 20, 30) for name, value in (("train/loss", 0.5), ("dev/accuracy", 0.7))
    ]
    assert points == {"tensorboard/abc-seed0": [*evaluated, ("test/accuracy", 20, 0.75)]}


def test_printing_listener_prints_each_evaluation_and_the_end():
    with contextlib.redirect_stdout(io.StringIO()) as output:
        follower = listener("Printing")
        follower.started(RUN, [])
        follower.evaluated(RUN, evaluation(10))
        follower.ended(RUN, None)
    assert output.getvalue().splitlines()[1:] == [
        "abc-seed0 10 0.5 {'accuracy': 0.7}",
        "abc-seed0 stopped before its end",
    ]
