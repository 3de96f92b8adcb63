"""The largest gains in speed: the version before each and the version with it, timed in turn, and where their time
goes.
"""

import contextlib
import dataclasses
import os
import subprocess
import sys
import tarfile
from collections.abc import Callable, Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

from benchmarks import timing
from benchmarks.conversation import Conversation
from benchmarks.gains_worker import KINDS
from benchmarks.settings import CONFIGS, Column, Item, Settings
from jaxmatch.errors import InputError
from jaxmatch.huge_pages import HUGE, TUNABLES

WORKER = Path(__file__).resolve().parent.parent / "gains_worker.py"
# A step of the released SNLI setting takes seconds.
MOST_ROUNDS = 5


@dataclasses.dataclass(frozen=True)
class Gain:
    """One change.

    Attributes:
      what: was changed.
      asked: of the worker (gains_worker.py).
      commit: with the change.
      before: without it, or the same.
      undone: settings that undo the change in the same commit.
      environment: variables that undo it.
    """

    what: str
    asked: Mapping[str, Any]
    commit: str
    before: str
    undone: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    environment: Mapping[str, str] = dataclasses.field(default_factory=dict)


GAINS = (
    Gain("length buckets", {"command": "train", "lengths": "all"}, "HEAD", "HEAD", {"training.maximum_buckets": 1}),
    Gain(
        "huge pages", {"command": "train", "lengths": "commonest"}, "HEAD", "HEAD", environment={TUNABLES: f"{HUGE}=0"}
    ),
    Gain("sequences in parts", {"command": "train", "lengths": "commonest"}, "38fc6c9", "38fc6c9~1"),
    Gain("rows side by side, weights normalised once", {"command": "match", "pairs": 2_000}, "3897d82", "3897d82~1"),
    Gain("products of words looked up", {"command": "match", "pairs": 2_000}, "bc163d4", "bc163d4~1"),
    Gain("products of mixed words looked up", {"command": "match", "pairs": 2_000}, "2383256", "2383256~1"),
    Gain("Eigen and wide vectors for answers", {"command": "match", "pairs": 2_000}, "cdb4d5e", "cdb4d5e~1"),
)


def run(settings: Settings) -> tuple[list[dict[str, Any]], list[str]]:
    """Two rows a gain: before and after."""
    rows = []
    for gain in GAINS:
        with contextlib.ExitStack() as stack:
            sides = {
                "before": _asking(stack, settings, gain, gain.before, gain.undone, gain.environment),
                "after": _asking(stack, settings, gain, gain.commit),
            }
            answers: dict[str, dict[str, Any]] = {}

            def seconds_of(side: str) -> Callable[[], float]:
                def ask() -> float:
                    answers[side] = sides[side]()
                    return answers[side]["seconds"]

                return ask

            candidates = {side: seconds_of(side) for side in sides}
            seconds = timing.in_turn(candidates, min(settings.rounds, MOST_ROUNDS))
        for side in sides:
            row = {
                "gain": gain.what,
                "version": f"{side}, {gain.commit if side == 'after' else gain.before}",
                **answers[side]["profile"],
            }
            row |= {"of": answers[side]["of"], "seconds": timing.spread(seconds[side])}
            row["ratio"] = timing.ratio(seconds["before"], seconds["after"]) if side == "after" else ""
            rows.append(row)
    return rows, [
        "Versions in turn, each in a process of its own, on the same data. HEAD is the version that measured.",
        "What the time went into: seconds of the instructions of a training step at the commonest length, or of all pairs matched, added up "
        "over threads, as the profiler says; 'moves' are copies, slices, concatenations and gathers.",
    ]


def _asking(
    stack: contextlib.ExitStack,
    settings: Settings,
    gain: Gain,
    commit: str,
    undone: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
) -> Callable[[], dict[str, Any]]:
    """Asks the worker of a version for one time."""
    folder = settings.scratch / f"version-{gain.commit}-{len(undone or {})}-{commit}".replace("~", "-")
    _export(commit, folder)
    told = {**os.environ, **(environment or {}), "PYTHONPATH": str(folder)}
    worker = stack.enter_context(Conversation([sys.executable, "-P", str(WORKER)], told))
    name = "re2_embedded_inference" if settings.quick else "re2_snli"
    overrides: dict[str, Any] = dict(undone or {})
    if settings.quick:
        overrides |= {"model.blocks": 1, "model.encoder_layers": 1, "model.hidden_size": 8, "training.batch_size": 16}
    else:
        overrides |= {"data.directory": settings.data_directory, "data.vectors": settings.vectors}
    asked = {**gain.asked, "config": str(folder / "configs" / f"{name}.py"), "overrides": overrides}
    return lambda: worker.ask(**asked)


def _export(commit: str, folder: Path) -> None:
    """Lays out the files of a commit.

    Raises:
      InputError: this is no checkout with that commit in its history.
    """
    done = subprocess.run(["git", "archive", commit], cwd=CONFIGS.parent, capture_output=True, check=False)
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        raise InputError(
            f"commit {commit} is not to be had: {said[-1] if said else ''}",
            remedy="use a checkout with its whole history",
        )
    with tarfile.open(fileobj=BytesIO(done.stdout)) as archive:
        archive.extractall(folder, filter="data")


ITEM = Item(
    title="The largest gains in speed, before and after, the released SNLI setting (3 blocks, hidden 150).",
    needs=("vectors",),
    columns=(
        Column("gain", "gain"),
        Column("version", "version"),
        Column("of", "measured"),
        Column("seconds", "seconds", ".3f"),
        Column("ratio", "before / after", ".2f"),
        *(Column(kind, kind, ".2f") for kind in KINDS),
    ),
    run=run,
)
