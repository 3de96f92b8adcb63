"""Compiles one program for one device that is not here, and prints what it holds and does, as a line of JSON.

"known" of a spec is the digest and the versions that such a line had ("text", "versions"): of the same program only
{"same": true} is printed.

    python -m benchmarks.accelerators.worker '{"target": "h100", "model": "re2", "program": "train", ...}'

Runs in an environment of its own that has libtpu or XLA's CUDA plugin (`python -m benchmarks.accelerators`).
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

# The training set of SNLI, its rows cut to 40 of 96 tokens, and a vocabulary.
PAIRS, LONGEST, LENGTH, WORDS, DIMENSIONS, CLASSES = 549_367, 96, 40, 40_000, 300, 3
# Pairs of a batch -> its most distinct words (jaxmatch/data/distinct_words.py), for models that take characters. With
# 41 tokens, batches of 64 pairs of SNLI had at most 682, of 383 pairs 2,038; a quarter is added.
MOST_WORDS = {64: 896, 512: 3072}
CONFIGS = {
    "re2": "re2_snli",
    "esan": "esan_snli",
    "csran": "csran_snli",
    "cafe": "cafe_snli",
}
COMPILERS = {"tpu": "libtpu", "cuda": "jax-cuda12-plugin"}
ENVIRONMENT = {
    # Several processes may compile at once, as none has the device; nor does the lock of one that was killed hinder
    # another.
    "tpu": {
        "JAX_PLATFORMS": "cpu",
        "TPU_SKIP_MDS_QUERY": "1",
        "TPU_WORKER_HOSTNAMES": "localhost",
        "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
    },
    # Without a device, XLA can neither try kernels out nor choose among its own of Triton.
    "cuda": {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": "--xla_gpu_autotune_level=0 --xla_gpu_enable_triton_gemm=false"},
}


def config_of(spec: Mapping[str, Any]) -> Any:
    """The config of a spec; "overrides" of it change settings by their dotted names."""
    from jaxmatch.settings import with_overrides
    from jaxmatch.sweep.launcher_files import load_config

    file = Path(__file__).parents[2] / "configs" / f"{CONFIGS[spec['model']]}.py"
    changes = {"model.precision": spec["precision"], **spec.get("overrides", {})}
    return with_overrides(load_config(file), changes)


def most_words_of(spec: Mapping[str, Any], module: Any) -> int | None:
    """As of `BatchShape`."""
    return MOST_WORDS.get(spec["batch"]) if module.takes_characters else None


def program_of(spec: dict[str, Any], target: Target, sharding: Any) -> Any:
    """The program of a spec (see `__main__.specs`), lowered for arrays that lie as `sharding` says; None: on this
    machine's device.
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
    """The sharding that puts arrays on one device of a target that is not here."""
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
    """What the compiled program of a spec holds and does; bytes, operations, seconds."""
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
    # A TPU's compiler counts itself; that for CUDA says nothing, so operations are those of the program before it is
    # compiled.
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

    jax.config.update("jax_enable_compilation_cache", False)  # what comes out of it took no time to compile
    print(json.dumps(figures(spec)), flush=True)


if __name__ == "__main__":
    main()
