"""What XLA's CPU compiler has not vectorised of a training step, and how long that takes.

    python -m benchmarks.kernels csran_snli [--batch 128] [--length 24] [--steps 4] [--rows 20] [--config.model.hidden_size=160 ...]

The config is one of `configs/`; its model trains on random pairs. A kernel is a loop that the compiler made of
operations it has fused; with nothing in it that works on several numbers at once it takes a multiple of what it could.
Times are those of all cores together, as the profiler counts them, which itself takes some.
"""

import argparse
import collections
import dataclasses
import gzip
import json
import os
import re
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

import jax

from benchmarks.items.models import random_pairs
from benchmarks.steps import Steps
from jaxmatch.cli.dotted import take_dotted
from jaxmatch.settings import with_overrides
from jaxmatch.sweep.launcher_files import load_config

CONFIGS = Path(__file__).resolve().parent.parent / "configs"
# Of the compiled program, as the compiler names its files and the profiler what it sees of products.
PROGRAM = "train_step"
PRODUCTS = ("dot", "ynn_fusion")
_FUNCTION = re.compile(r'^define [^@\n]*@"?([\w.\-]+)"?\((.*?)^}', re.MULTILINE | re.DOTALL)
_VECTOR = re.compile(r"<\d+ x (float|double|i\d+)>")


@dataclasses.dataclass(frozen=True)
class Kernel:
    """A loop of the program.

    Attributes:
      name: that the compiler gave it.
      milliseconds: it takes in a step, on all cores together.
      calls: in a step, counted once for each core that takes part.
      vectorised: whether anything in it works on several numbers at once.
    """

    name: str
    milliseconds: float
    calls: float
    vectorised: bool


def vectorised(texts: Iterable[str]) -> dict[str, bool]:
    """The functions in LLVM's text form -> whether each has an operation on a vector."""
    return {name: bool(_VECTOR.search(body)) for text in texts for name, body in _FUNCTION.findall(text)}


def kernels(known: Mapping[str, bool], events: Iterable[Mapping], steps: int) -> tuple[list[Kernel], float]:
    """The kernels of a step by the time they take, longest first, and the milliseconds of the products.

    Arguments:
      known: as `vectorised` gives it.
      events: of a trace, as the profiler writes them: {"name", "ph", "dur" in microseconds}.
      steps: how many the trace is of.
    """
    microseconds, calls = collections.Counter(), collections.Counter()
    for event in events:
        if event.get("ph") == "X" and "dur" in event:
            microseconds[event["name"]] += event["dur"]
            calls[event["name"]] += 1
    found = [
        Kernel(name, time / steps / 1e3, calls[name] / steps, known[name])
        for name, time in microseconds.most_common()
        if name in known
    ]
    products = sum(time for name, time in microseconds.items() if name.startswith(PRODUCTS) and name not in known)
    return found, products / steps / 1e3


def report(found: Iterable[Kernel], products: float, rows: int) -> list[str]:
    """Lines to print: totals, and the kernels without vectors that take longest."""
    found = list(found)
    scalar = [kernel for kernel in found if not kernel.vectorised]
    total, slow = (sum(kernel.milliseconds for kernel in some) for some in (found, scalar))
    lines = [
        f"a step, all cores together: products {products:,.0f} ms, kernels {total:,.0f} ms, "
        f"of which {slow:,.0f} ms in {len(scalar)} that are not vectorised"
    ]
    return lines + [f"{kernel.milliseconds:10.2f} ms {kernel.calls:7.1f} x  {kernel.name}" for kernel in scalar[:rows]]


def _traced(steps: Steps, count: int, folder: Path) -> list[dict]:
    """The events of some steps."""
    steps.taking(2)
    with jax.profiler.trace(str(folder)):
        steps.taking(count)
    (trace,) = folder.glob("**/*.trace.json.gz")
    return json.loads(gzip.decompress(trace.read_bytes()))["traceEvents"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("config")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--length", type=int, default=24)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--rows", type=int, default=20)
    rest, dotted = take_dotted(sys.argv[1:])
    arguments = parser.parse_args(rest)
    if jax.config.jax_platforms not in (None, "", "cpu"):
        parser.error(f"this is about a CPU, and JAX_PLATFORMS is {jax.config.jax_platforms}")
    overrides = {"training.batch_size": arguments.batch, **dotted["config"]}
    config = with_overrides(load_config(CONFIGS / f"{arguments.config}.py"), overrides)
    data = random_pairs(config, arguments.length)
    with tempfile.TemporaryDirectory() as scratch:
        # Read when the first program is compiled. What comes out of a cache is not compiled, and leaves no files.
        os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_dump_to={scratch}"
        jax.config.update("jax_platforms", "cpu")
        jax.config.update("jax_enable_compilation_cache", False)
        events = _traced(
            Steps(config, data, replicas=1, length=arguments.length), arguments.steps, Path(scratch) / "trace"
        )
        texts = [path.read_text() for path in Path(scratch).glob(f"*{PROGRAM}*.ir-with-opt.ll")]
    found, products = kernels(vectorised(texts), events, arguments.steps)
    print(f"{arguments.config}, batch {config.training.batch_size}, {arguments.length} tokens, jax {jax.__version__}")
    print("\n".join(report(found, products, arguments.rows)))


if __name__ == "__main__":
    main()
