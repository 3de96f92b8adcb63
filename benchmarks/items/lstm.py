"""The bidirectional LSTM layer compared with torch.nn.LSTM: the same sentences, weights, states and gradients."""

import contextlib
import dataclasses
import functools
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np

from benchmarks import ceiling, stopwatch
from benchmarks.item import Column, Item, Settings
from benchmarks.worker_process import WorkerProcess, WorkerStopped
from jaxmatch import devices
from jaxmatch.inference.cpu import compiler_options
from jaxmatch.layers.core import traced_for
from jaxmatch.layers.lstm import Lstm

WORKER = Path(__file__).resolve().parent.parent / "lstm_worker.py"
INPUTS = 300
# The tokens of a pair. A first sentence has half of them, or a number drawn between the two bounds.
ROW = 60
EQUAL, DRAWN = (30, 30), (10, 50)
# (pairs, features of a direction, bounds of the tokens of a first sentence)
SHAPES = ((64, 150, EQUAL), (128, 150, EQUAL), (128, 150, DRAWN), (64, 300, EQUAL), (128, 300, EQUAL))
QUICK_SHAPES = ((4, 8, EQUAL), (4, 8, DRAWN))
WORK = {False: "forward", True: "forward and backward"}
# The maximum share of torch's time, on a CPU.
GOAL = 1.0
# Precision of our products -> the largest difference to torch's states and gradients, relative to the largest value.
TOLERANCES = {"float32": 1e-3, "TF32": 1e-2, "bfloat16": 5e-2}


@dataclasses.dataclass(frozen=True)
class Case:
    """The arrays that both layers get.

    Attributes:
      inputs: <float32>[pairs, ROW, INPUTS].
      sentences: <int8>[pairs, ROW], 1 or 2: the sentence of each token.
      params: the parameters of `Lstm`.
      output_gradient: <float32>[pairs, ROW, 2 * hidden], the gradient of the states.
    """

    inputs: np.ndarray
    sentences: np.ndarray
    params: Mapping[str, np.ndarray]
    output_gradient: np.ndarray

    def by_sentence(self, values: np.ndarray) -> np.ndarray:
        """Converts [pairs, ROW, size] to [2 * pairs, longest sentence, size], with zeros after each sentence, as torch
        takes it.
        """
        lengths = self.lengths
        cut = np.zeros((len(lengths), lengths.max(), values.shape[-1]), values.dtype)
        cut[np.arange(lengths.max()) < lengths[:, None]] = values.reshape(
            -1, values.shape[-1]
        )  # rows are full: no padding
        return cut

    @property
    def lengths(self) -> np.ndarray:
        """<int64>[2 * pairs], the tokens of each sentence. The first sentence of a pair is before the second one."""
        return np.stack([(self.sentences == which).sum(axis=1) for which in (1, 2)], axis=1).reshape(-1)


def case(pairs: int, hidden: int, tokens: tuple[int, int]) -> Case:
    """Returns random sentences, weights and gradients.

    Arguments:
      pairs: the number of pairs.
      hidden: the features of a direction.
      tokens: the minimum and maximum tokens of a first sentence. The second sentence has the rest of the row.
    """
    random = np.random.default_rng(0)
    firsts = random.integers(tokens[0], tokens[1], pairs, endpoint=True)
    limit = hidden**-0.5
    shapes = {
        "input_kernel": (INPUTS, 2, 4, hidden),
        "recurrent_kernel": (2, hidden, 4, hidden),
        "bias": (2, 4, hidden),
    }
    return Case(
        inputs=random.normal(size=(pairs, ROW, INPUTS)).astype(np.float32),
        sentences=np.where(np.arange(ROW) < firsts[:, None], 1, 2).astype(np.int8),
        params={name: random.uniform(-limit, limit, shape).astype(np.float32) for name, shape in shapes.items()},
        output_gradient=random.normal(size=(pairs, ROW, 2 * hidden)).astype(np.float32),
    )


def programs(example: Case) -> dict[bool, Callable[[], Any]]:
    """Compiles our layer, once as for predictions and once as for training steps.

    Returns:
      False (predictions) and True (training steps) -> a function that runs the program. In training steps, it also
      computes the gradients of the parameters and the inputs.
    """
    module = Lstm(example.params["bias"].shape[-1])
    params, inputs, sentences, output_gradient = jax.device_put(
        (dict(example.params), example.inputs, example.sentences, example.output_gradient)
    )

    def forward(params, inputs):
        return module.apply({"params": params}, (inputs,), sentences)

    def total(params, inputs):
        states = forward(params, inputs)
        return (states * output_gradient).sum(), states

    platform = jax.default_backend()
    of_training = devices.compiler_options(platform) or None
    made = {
        False: jax.jit(forward, compiler_options=compiler_options() if platform == "cpu" else of_training),
        True: jax.jit(jax.grad(total, argnums=(0, 1), has_aux=True), compiler_options=of_training),
    }
    with traced_for(platform):
        made = {training: program.lower(params, inputs).compile() for training, program in made.items()}
    return {
        training: lambda program=program: jax.block_until_ready(program(params, inputs))
        for training, program in made.items()
    }


def difference(example: Case, ours: Any, theirs: Mapping[str, np.ndarray]) -> float:
    """Returns the largest difference of states and gradients, relative to the largest of their values."""
    (of_params, of_inputs), states = ours
    pairs = [
        (example.by_sentence(np.asarray(states)), theirs["states"]),
        (example.by_sentence(np.asarray(of_inputs)), theirs["inputs"]),
        (
            np.asarray(of_params["recurrent_kernel"]).reshape(theirs["recurrent_kernel"].shape),
            theirs["recurrent_kernel"],
        ),
    ]
    return max(float(np.abs(one - other).max() / np.abs(other).max()) for one, other in pairs)


def run(settings: Settings) -> tuple[list[dict[str, Any]], list[str]]:
    """Returns two rows for every shape, without and with the backward pass, and notes."""
    rows, differences = [], []
    with contextlib.ExitStack() as stack:
        torch = _torch(stack, settings)
        for shape in QUICK_SHAPES if settings.quick else SHAPES:
            example = case(*shape)
            ours = programs(example)
            candidates = {f"ours {training}": functools.partial(_once, ours[training]) for training in WORK}
            if torch:
                differences.append(_build(torch, example, ours[True](), settings.scratch))
                for training in WORK:
                    candidates[f"torch {training}"] = lambda training=training: torch.request("run", training=training)[
                        "seconds"
                    ]
            rows += _rows(shape, stopwatch.in_turn(candidates, settings.rounds))
    notes = [
        f"One layer, both directions, {INPUTS} inputs, rows of {ROW} tokens that hold both sentences of a pair. Where "
        f"sentences have {EQUAL[0]} tokens each, torch takes them as they are, otherwise packed. Backward: gradients "
        "of all weights and of the inputs.",
        "On arrays that lie ready on the device; the two in turn. Ours is compiled as answers (forward) and as "
        "training steps are.",
        f"Matrix products of float32 numbers run in {ceiling.default_products()} on this device, JAX's default for it.",
    ]
    if torch:
        notes.append(
            f"torch {torch.about['torch']}, {torch.about['device']}; states and gradients differ from ours by at most "
            f"{max(differences):.0e} of the largest value."
        )
    else:
        notes.append("torch: not measured; python -m benchmarks lstm --peer-python PYTHON, a Python that has torch.")
    return rows, notes


def _once(work: Callable[[], Any]) -> None:
    """Runs the work and drops its result, which is not a time."""
    work()


def _torch(stack: contextlib.ExitStack, settings: Settings) -> WorkerProcess | None:
    """Starts the worker that has torch. Returns None if it cannot be started or its Python has no torch."""
    if not settings.peer_python:
        return None
    try:
        worker = stack.enter_context(WorkerProcess([settings.peer_python, "-P", str(WORKER)], os.environ))
    except (WorkerStopped, OSError):
        return None
    return worker if worker.about["torch"] else None


def _build(torch: WorkerProcess, example: Case, ours: Any, scratch: Path) -> float:
    """Gives a case to the worker, and returns the difference between its results and ours.

    Raises:
      RuntimeError: the results are not the same.
    """
    arrays, values = scratch / "lstm-inputs.npz", scratch / "lstm-outputs.npz"
    cut = {
        "inputs": example.by_sentence(example.inputs),
        "output_gradient": example.by_sentence(example.output_gradient),
        "lengths": example.lengths,
    }
    np.savez(arrays, **example.params, **cut)
    torch.request("build", arrays=str(arrays))
    torch.request("values", to=str(values))
    with np.load(values) as theirs:
        error = difference(example, ours, theirs)
    if not error < TOLERANCES[ceiling.default_products()]:
        raise RuntimeError(f"torch's states or gradients differ from ours by {error:.0e} of the largest value")
    return error


def _rows(shape: tuple[int, int, tuple[int, int]], seconds: Mapping[str, list[float]]) -> list[dict[str, Any]]:
    pairs, hidden, (least, most) = shape
    rows = []
    for training, work in WORK.items():
        ours, theirs = seconds[f"ours {training}"], seconds.get(f"torch {training}")
        row = {
            "pairs": pairs,
            "hidden": hidden,
            "tokens": str(least) if least == most else f"{least} to {most}",
            "work": work,
        }
        row["ours"] = stopwatch.spread([1e3 * one for one in ours])
        if theirs:
            row |= {"torch": stopwatch.spread([1e3 * one for one in theirs]), "ratio": stopwatch.ratio(ours, theirs)}
        row["goal"] = GOAL if jax.default_backend() == "cpu" else ""
        rows.append(row)
    return rows


ITEM = Item(
    title="The bidirectional LSTM layer against torch.nn.LSTM.",
    needs=(),
    columns=(
        Column("pairs", "pairs", "d"),
        Column("hidden", "features of a direction", "d"),
        Column("tokens", "tokens of a sentence"),
        Column("work", "work"),
        Column("ours", "ours, ms", ".1f"),
        Column("torch", "torch, ms", ".1f"),
        Column("ratio", "ours / torch", ".2f"),
        Column("goal", "goal (CPU), at most", ".1f"),
    ),
    run=run,
)
