"""Times one version of jaxmatch, the one on the path; started by `items/gains.py` with an export of a commit.

It uses only what all the compared versions have. It reads a JSON object a line and answers with one.

  train    {config, overrides, lengths}   an epoch ("all" lengths) or a step (of the "commonest") -> seconds, of what,
  profile of a step match    {config, overrides, pairs}     texts of the test split to labels -> seconds, of what,
  profile
"""

import collections
import glob
import gzip
import json
import re
import sys
import tempfile
import time

import jax
import numpy as np

from jaxmatch import models
from jaxmatch.data import catalog
from jaxmatch.settings import with_overrides
from jaxmatch.sweep import preparation
from jaxmatch.sweep.launcher_files import load_config
from jaxmatch.training.cohort import Cohort

try:
    from jaxmatch.inference.inference_model import InferenceModel
    from jaxmatch.inference.matcher import Matcher
except ImportError:  # the versions before these modules
    from jaxmatch.matcher import Matcher
    from jaxmatch.models.bound import BoundModel as InferenceModel

# What an instruction of a compiled program does, by its name; the first that fits.
KINDS = {
    "matrix products": r"dot|ynn|gemm",
    "moves": r"copy|slice|concatenate|transpose|pad|gather|scatter",
    "sums and maxima": r"reduce",
    "element by element": r"fusion|wrapped|multiply|add|exponential|select|compare|broadcast|tanh|divide|subtract|iota|convert",
}


def kind_of(instruction: str) -> str:
    """The kind of an instruction: "copy_bitcast_fusion.6" is a move.

    "" for what is none, like a thread's own events.
    """
    name = re.sub(r"[.\d]+$", "", instruction)
    if not re.fullmatch(r"[a-z][a-z0-9_\-]*", name):
        return ""
    return next((kind for kind, pattern in KINDS.items() if re.search(pattern, name)), "")


class Worker:
    def __init__(self):
        self.ready = {}

    def _prepared(self, config, overrides):
        settings = with_overrides(load_config(config), overrides)
        return settings, preparation.prepare(settings)

    def _lockstep(self, config, overrides):
        settings, data = self._prepared(config, overrides)
        return Cohort(
            model=settings.model.to_dict(),
            training=settings.training.to_dict(),
            execution=settings.execution.to_dict(),
            data=data,
            seeds=[0],
            optimizer=[settings.optimizer.to_dict()],
        ).lockstep

    def train(self, config, overrides, lengths):
        key = json.dumps(["train", config, overrides])
        if key not in self.ready:
            lockstep = self._lockstep(config, overrides)
            self.ready[key] = {"lockstep": lockstep, "state": lockstep.initial(), "epoch": lockstep.epoch(0)}
        made = self.ready[key]
        lockstep, buckets = made["lockstep"], np.asarray(made["epoch"].sequence)[:, 0]
        counts = np.bincount(buckets)
        chosen = np.flatnonzero(counts) if lengths == "all" else [counts.argmax()]

        def step(bucket):
            index = int(np.flatnonzero(buckets == bucket)[0])
            made["state"] = jax.block_until_ready(lockstep.step(made["state"], made["epoch"], index))

        if "profile" not in made:
            for bucket in chosen:  # compiles
                step(bucket)
            made["profile"] = profile(lambda: step(counts.argmax()))
        seconds = 0.0
        for bucket in chosen:
            step(bucket)  # warm, as in steps.py
            start = time.perf_counter()
            step(bucket)
            seconds += (time.perf_counter() - start) * (int(counts[bucket]) if lengths == "all" else 1)
        of = (
            "an epoch, each of its lengths timed once"
            if lengths == "all"
            else f"a step at {lockstep.buckets[counts.argmax()]} tokens a pair"
        )
        return {"seconds": seconds, "of": of, "profile": made["profile"]}

    def match(self, config, overrides, pairs):
        key = json.dumps(["match", config, overrides])
        if key not in self.ready:
            settings, data = self._prepared(config, overrides)
            module = models.build(settings.model.to_dict(), outputs=len(data.labels))
            side = {"ids": np.ones((1, 1), np.int32)}
            parameters = jax.jit(module.init)(jax.random.key(0), side, side, data.vectors)["params"]
            about = dict(
                vocabulary=data.vocabulary,
                preprocessing=data.preprocessing,
                labels=data.labels,
                task=data.task,
                config={},
            )
            split = catalog.load(data.name, settings.data.directory).splits["test"]
            texts = list(zip(split.text_a, split.text_b))[:pairs]
            matcher = Matcher(InferenceModel(module, parameters, data.vectors), **about)
            matcher.predict(texts)  # compiles
            self.ready[key] = matcher, texts, profile(lambda: matcher.predict(texts))
        matcher, texts, into = self.ready[key]
        start = time.perf_counter()
        matcher.predict(texts)
        return {"seconds": time.perf_counter() - start, "of": f"{len(texts):,} test pairs", "profile": into}


def profile(work) -> dict[str, float]:
    """Kind of instruction (`KINDS`) -> seconds of it while the work runs once, added up over the threads."""
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder, create_perfetto_trace=True):
            work()
        (file,) = glob.glob(f"{folder}/**/perfetto_trace.json.gz", recursive=True)
        with gzip.open(file) as trace:
            events = json.load(trace)["traceEvents"]
    seconds = collections.Counter()
    for event in events:
        if event.get("ph") == "X" and (kind := kind_of(event["name"])):
            seconds[kind] += event["dur"] / 1e6
    return dict(seconds)


def main():
    answers, sys.stdout = sys.stdout, sys.stderr
    worker = Worker()
    print(json.dumps({"jax": jax.__version__}), file=answers, flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        print(json.dumps(getattr(worker, asked.pop("command"))(**asked)), file=answers, flush=True)


if __name__ == "__main__":
    main()
