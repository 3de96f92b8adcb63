"""Results of a program that has run on a device."""

import time
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks.device import case


def state(**changes):
    fields = {"loss_sum": np.array([2.0, 3.0]), "loss_weight": np.full(2, 10.0), "diverged_at": np.full(2, -1)}
    return SimpleNamespace(**fields | changes)


def test_step_time_is_kept_if_the_compiled_program_cannot_be_read(monkeypatch):
    monkeypatch.setattr(case.worker, "program_of", lambda *_: SimpleNamespace(compile=lambda **_: lambda *_: state()))
    monkeypatch.setattr(case, "arguments_of", lambda *_: [state()])
    monkeypatch.setattr(case, "step_times", lambda *_: ([3.0, 1.0, 2.0], 1.5, state()))
    found = case.measured({"model": "re2"})
    assert (found["seconds"], found["seconds_in_a_row"], found["loss"]) == (2.0, 1.5, 0.25)
    assert found["unread"].startswith("AttributeError")


@pytest.mark.parametrize("wrong", [{"loss_sum": np.array([2.0, np.nan])}, {"diverged_at": np.array([-1, 64])}])
def test_nan_losses_and_diverged_runs_are_errors(wrong):
    with pytest.raises(RuntimeError, match="wrong numbers: after 3 steps the losses are"):
        case.loss_of(state(**wrong))


def test_readable_program_statistics_are_kept_if_others_cannot_be_read(monkeypatch):
    def text():
        raise ValueError("another form")

    monkeypatch.setattr(case, "operations_of", lambda _: 7)
    memory = SimpleNamespace(temp_size_in_bytes=3, argument_size_in_bytes=5)
    compiled = SimpleNamespace(memory_analysis=lambda: memory, as_text=text)
    found = case.read_program(compiled, {"precision": "float32"}, SimpleNamespace(device_kind="x", platform="gpu"))
    assert {key: found[key] for key in ("temporaries", "arguments", "operations")} == {
        "temporaries": 3,
        "arguments": 5,
        "operations": 7,
    }
    assert "another form" in found["unread"] and not {"moved", "least_seconds", "products"} & found.keys()


def test_warm_up_steps_run_before_the_timed_steps(monkeypatch):
    monkeypatch.setattr(case, "SECONDS_TO_WARM", 0.05)
    monkeypatch.setattr(case, "SECONDS_OF_STEPS", 0.0)
    executed = []

    def step(state):
        executed.append(state)
        time.sleep(0.01)
        return state + 1

    seconds, in_a_row, last = case.step_times(step, 0)
    warm = len(executed) - 2 * case.LEAST_STEPS
    assert last == len(executed)
    assert len(seconds) == case.LEAST_STEPS and in_a_row >= 0.01 and case.WARM_STEPS <= warm <= 5
