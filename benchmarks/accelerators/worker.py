"""Compiles one program for one device that is not present, and prints its figures as a line of JSON.

A spec may have "known": the digest ("text") and the "versions" of an earlier line. If the program is still the same,
only {"same": true} is printed.

    python -m benchmarks.accelerators.worker '{"target": "h100", "model": "re2", "program": "train", ...}'

It runs in an environment of its own that has libtpu or XLA's CUDA plugin (`python -m benchmarks.accelerators`).
"""

import functools
import hashlib
import json
import os
import sys
import time
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from benchmarks.accelerators import hlo
from benchmarks.accelerators.targets import TARGETS, Target

# The sizes of SNLI's training set, with rows cut to 40 of 96 tokens, and of a vocabulary.
PAIRS, LONGEST, LENGTH, WORDS, DIMENSIONS, CLASSES = 549_367, 96, 40, 40_000, 300, 3
# Pairs of a batch -> its most distinct words (jaxmatch/data/distinct_words.py), for models that take characters. With
# 41 tokens in a row, batches of 64 pairs of SNLI had at most 682 distinct words, and batches of 383 pairs 2,038. A
# quarter is added.
MOST_WORDS = {64: 896, 512: 3072}
CONFIGS = {
    "re2": "re2_snli",
    "esan": "esan_snli",
    "csran": "csran_snli",
    "cafe": "cafe_snli",
}
COMPILERS = {"tpu": "libtpu", "cuda": "jax-cuda12-plugin"}
ENVIRONMENT = {
    # Several processes may compile at once, because none uses the device. The lock of a process that was killed does
    # not stop another one.
    "tpu": {
        "JAX_PLATFORMS": "cpu",
        "TPU_SKIP_MDS_QUERY": "1",
        "TPU_WORKER_HOSTNAMES": "localhost",
        "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
    },
    # Without a device, XLA can neither try kernels out nor choose among its own Triton kernels.
    "cuda": {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": "--xla_gpu_autotune_level=0 --xla_gpu_enable_triton_gemm=false"},
}


def config_of(spec: Mapping[str, Any]) -> Any:
    """Loads the config of a spec. The spec's "overrides" change settings by their dotted names."""
    from jaxmatch.settings import with_overrides
    from jaxmatch.sweep.launcher_files import load_config

    file = Path(__file__).parents[2] / "configs" / f"{CONFIGS[spec['model']]}.py"
    changes = {"model.precision": spec["precision"], **spec.get("overrides", {})}
    return with_overrides(load_config(file), changes)


def most_words_of(spec: Mapping[str, Any], module: Any) -> int | None:
    """Returns the most distinct words of a batch, as in `BatchShape`; None for a model without characters."""
    return MOST_WORDS.get(spec["batch"]) if module.takes_characters else None


def program_of(spec: dict[str, Any], target: Target, sharding: Any) -> Any:
    """Returns the program of a spec (see `__main__.specs`), lowered for arrays with the sharding `sharding`. None means
    the device of this machine.
    """
    import jax
    import jax.numpy as jnp

    from jaxmatch import models
    from jaxmatch.sweep import memory
    from jaxmatch.training.evaluation import cohort_outputs
    from jaxmatch.training.step import BatchShape, cohort_step, flattening

    def array(shape, dtype):
        return jax.ShapeDtypeStruct(tuple(shape), dtype, sharding=sharding)

    replicas, batch = spec["replicas"], spec["batch"]
    pairs = spec.get("pairs", PAIRS)
    module = models.build(config_of(spec).model.to_dict(), outputs=CLASSES)
    flat = flattening(module, DIMENSIONS, platform=target.platform if target else jax.default_backend())
    state, settings, seed, active, *_, split, vectors = memory.step_shapes(
        module, "classification", DIMENSIONS, batch, LENGTH
    )
    vectors = jax.tree.map(lambda leaf: array((WORDS, *leaf.shape[1:]), leaf.dtype), vectors)
    if spec["program"] == "evaluate":
        parameters = array((replicas, *state.parameters.shape), state.parameters.dtype)
        tokens, sentences = jax.tree.map(
            lambda leaf: array(leaf.shape, leaf.dtype), (split["tokens"], split["sentences"])
        )
        outputs = functools.partial(cohort_outputs(flat), most_words_of(spec, module), replicas)
        return jax.jit(outputs).lower(parameters, tokens, sentences, vectors)
    stacked = jax.tree.map(lambda leaf: array((replicas, *leaf.shape), leaf.dtype), (state, settings, seed, active))
    split = jax.tree.map(lambda leaf: array((pairs, LONGEST)[: leaf.ndim], leaf.dtype), split)
    order, weights = (array((replicas, pairs // batch, batch), dtype) for dtype in (jnp.int32, jnp.float32))
    step = functools.partial(
        cohort_step(flat, "classification"), BatchShape(LENGTH, most_words_of(spec, module)), replicas
    )
    return jax.jit(step, donate_argnums=0).lower(*stacked, order, weights, array((), jnp.int32), split, vectors)


def one_device_of(target: Target) -> Any:
    """Returns the sharding that puts arrays on one device of a target that is not present."""
    import numpy as np
    from jax.experimental import topologies
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    if target.platform == "tpu":
        topology = topologies.get_topology_desc(target.topology, platform="tpu")
    else:
        description = (Path(__file__).parent / target.topology).read_text()
        topology = topologies.get_topology_desc(platform="cuda", topology="1x1x1", target_config=description)
    return NamedSharding(Mesh(np.array(topology.devices[:1]), ("replica",)), PartitionSpec())


def figures(spec: dict[str, Any]) -> dict[str, Any]:
    """Compiles the program of a spec, and returns its figures in bytes, operations and seconds."""
    from benchmarks.accelerators.products import products

    target = TARGETS[spec["target"]]
    sharding = one_device_of(target)
    (device,) = sharding.device_set
    program = program_of(spec, target, sharding)
    text = hashlib.sha256(program.as_text().encode()).hexdigest()[:16]
    made = {"text": text, "versions": {name: metadata.version(name) for name in ("jax", COMPILERS[target.platform])}}
    if spec.get("known") == made:
        return {"same": True}
    started = time.perf_counter()
    compiled = program.compile()
    seconds = time.perf_counter() - started
    held, compiled_text = compiled.memory_analysis(), compiled.as_text()
    work, costs = hlo.work(compiled_text), compiled.cost_analysis() or {}
    # A TPU's compiler counts operations and bytes itself. The compiler for CUDA does not, so the operations are those
    # of the program before compilation.
    operations = costs.get("flops") or program_of(spec, target, None).cost_analysis()["flops"]
    moved = costs.get("bytes accessed") or work.moved
    found = {
        "temporaries": held.temp_size_in_bytes,
        "arguments": held.argument_size_in_bytes,
        "moved": moved,
        "operations": operations,
        "kernels": work.kernels,
        "kernels_in_loops": work.in_loops,
        "collectives": work.collectives,
        "products": sorted({product.uses(device) for product in products(compiled_text)}),
        "compile_seconds": round(seconds, 1),
        **made,
    }
    if target.platform == "tpu":
        found["worst_padding"], found["most_padded"] = hlo.worst_padding(compiled_text)
    return found | {"least_seconds": target.least_seconds(spec["precision"], moved, operations, work.kernels)}


def main() -> None:
    spec = json.loads(sys.argv[1])
    os.environ.update(ENVIRONMENT[TARGETS[spec["target"]].platform])
    import jax

    jax.config.update("jax_enable_compilation_cache", False)  # a program from the cache takes no time to compile
    print(json.dumps(figures(spec)), flush=True)


if __name__ == "__main__":
    main()
