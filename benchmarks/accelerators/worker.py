"""Compiles one program for devices that are not present, and prints its figures as a line of JSON.

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
# Pairs of a batch -> its most distinct words (jaxmatch/data/batches.py), for models that take characters. With
# 41 tokens in a row, batches of 64 pairs of SNLI had at most 682 distinct words, and batches of 383 pairs 2,038. A
# quarter is added.
MOST_WORDS = {64: 896, 512: 3072}
# The lengths of the rows of a program that makes many steps.
LENGTHS_OF_MANY = 20, LENGTH
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
    from jaxmatch.config.settings import with_overrides
    from jaxmatch.sweep.files import load_config

    file = Path(__file__).parents[2] / "configs" / f"{CONFIGS[spec['model']]}.py"
    changes = {"model.precision": spec["precision"], **spec.get("overrides", {})}
    return with_overrides(load_config(file), changes)


def most_words_of(spec: Mapping[str, Any], module: Any) -> int | None:
    """Returns the most distinct words of a batch, as in `BatchShape`; None for a model without characters."""
    return MOST_WORDS.get(spec["batch"]) if module.takes_characters else None


def module_of(spec: Mapping[str, Any]) -> Any:
    """Returns the model of a spec."""
    from jaxmatch import models

    return models.build(config_of(spec).model.to_dict(), outputs=CLASSES)


def shape_of(spec: Mapping[str, Any], module: Any, length: int = LENGTH) -> Any:
    """Returns the `BatchShape` of a spec, with rows of `length` tokens."""
    from jaxmatch.training.step import BatchShape

    return BatchShape(length, most_words_of(spec, module))


def arguments_of(spec: Mapping[str, Any], module: Any, by_replica: Any, whole: Any) -> tuple:
    """Returns the shapes of the arrays that the program of a spec takes (jaxmatch/training/signature_programs.py).

    Arguments:
      spec: the spec.
      module: its model.
      by_replica: the sharding of arrays whose leading axis is the replica axis; None means the device of this machine.
      whole: the sharding of the other arrays.
    """
    import jax
    import jax.numpy as jnp

    from jaxmatch.sweep import memory

    replicas, batch, pairs = spec["replicas"], spec["batch"], spec.get("pairs", PAIRS)

    def array(shape, dtype, sharding=whole):
        return jax.ShapeDtypeStruct(tuple(shape), dtype, sharding=sharding)

    def stacked(leaf):
        return array((replicas, *leaf.shape), leaf.dtype, by_replica)

    state, settings, seed, active, *_, split, vectors = memory.step_shapes(
        module, "classification", DIMENSIONS, batch, LENGTH
    )
    vectors = jax.tree.map(lambda leaf: array((WORDS, *leaf.shape[1:]), leaf.dtype), vectors)
    if spec["program"] == "evaluate":
        batch_of_pairs = jax.tree.map(lambda leaf: array(leaf.shape, leaf.dtype), (split["tokens"], split["sentences"]))
        return stacked(state.parameters), *batch_of_pairs, vectors
    split = jax.tree.map(lambda leaf: array((pairs, LONGEST)[: leaf.ndim], leaf.dtype), split)
    order, weights = (stacked(array((pairs // batch, batch), dtype)) for dtype in (jnp.int32, jnp.float32))
    index = array((), jnp.int32)
    steps = order, weights, index
    if spec["program"] == "train_many":
        batches, sequence = ((order, weights),) * len(LENGTHS_OF_MANY), array((pairs // batch, 2), jnp.int32)
        steps = batches, sequence, index, index
    return *jax.tree.map(stacked, (state, settings, seed, active)), *steps, split, vectors


def program_of(spec: dict[str, Any], target: Target | None, sharding: Any) -> Any:
    """Returns the program of a spec (see `__main__.specs`), lowered for arrays with the sharding `sharding`. None means
    the device of this machine.
    """
    import jax

    from jaxmatch.training.evaluation import cohort_outputs
    from jaxmatch.training.step import cohort_step, flattening

    module = module_of(spec)
    flat = flattening(module, DIMENSIONS, platform=target.platform if target else jax.default_backend())
    arrays = arguments_of(spec, module, sharding, sharding)
    if spec["program"] == "evaluate":
        outputs = functools.partial(cohort_outputs(flat), most_words_of(spec, module), spec["replicas"])
        return jax.jit(outputs).lower(*arrays)
    step = functools.partial(cohort_step(flat, "classification"), shape_of(spec, module), spec["replicas"])
    return jax.jit(step, donate_argnums=0).lower(*arrays)


def devices_of(target: Target, count: int) -> list[Any]:
    """Returns devices of a target that need not be present: those of one host."""
    from jax.experimental import topologies

    if target.platform == "tpu":
        return topologies.get_topology_desc(target.topology, platform="tpu").devices[:count]
    description = (Path(__file__).parent / target.topology).read_text()
    return topologies.get_topology_desc(platform="cuda", topology=f"1x1x{count}", target_config=description).devices


def figures(spec: dict[str, Any]) -> dict[str, Any]:
    """Compiles the program of a spec for one device, and returns its figures in bytes, operations and seconds."""
    import numpy as np
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    from benchmarks.accelerators.products import products

    target = TARGETS[spec["target"]]
    (device,) = devices_of(target, 1)
    program = program_of(spec, target, NamedSharding(Mesh(np.array([device]), ("replica",)), PartitionSpec()))
    text = hashlib.sha256(program.as_text().encode()).hexdigest()[:16]
    made = {"text": text, "versions": {name: metadata.version(name) for name in ("jax", COMPILERS[target.platform])}}
    if spec.get("known") == made:
        return {"same": True}
    started = time.perf_counter()
    compiled = program.compile()
    seconds = time.perf_counter() - started
    compiled_text, costs = compiled.as_text(), compiled.cost_analysis() or {}
    found = counts(compiled, compiled_text)
    # The compiler for CUDA does not count operations, so they are those of the program before compilation.
    operations = costs.get("flops") or program_of(spec, target, None).cost_analysis()["flops"]
    found |= {
        "operations": operations,
        "products": sorted({product.uses(device) for product in products(compiled_text)}),
        "compile_seconds": round(seconds, 1),
        **made,
    }
    if target.platform == "tpu":
        found["worst_padding"], found["most_padded"] = hlo.worst_padding(compiled_text)
    least = target.least_seconds(spec["precision"], found["moved"], operations, found["kernels"])
    return found | {"least_seconds": least}


def counts(compiled: Any, text: str) -> dict[str, Any]:
    """Returns what a compiled program holds and does on each of its devices. `text` is its HLO."""
    held, work = compiled.memory_analysis(), hlo.work(text)
    return {
        "temporaries": held.temp_size_in_bytes,
        "arguments": held.argument_size_in_bytes,
        # A TPU's compiler counts the bytes itself. The compiler for CUDA does not.
        "moved": (compiled.cost_analysis() or {}).get("bytes accessed") or work.moved,
        "kernels": work.kernels,
        "kernels_in_loops": work.in_loops,
        "collectives": work.collectives,
    }


def figures_on_several(spec: dict[str, Any]) -> dict[str, Any]:
    """Compiles the program of a spec as the package does for several devices, and returns the figures of each."""
    from jax.sharding import NamedSharding, PartitionSpec

    from jaxmatch.training.programs import REPLICA
    from jaxmatch.training.signature_programs import programs

    target, module = TARGETS[spec["target"]], module_of(spec)
    devices = tuple(devices_of(target, spec["devices"]))
    own = programs(module, "classification", DIMENSIONS, 2, devices)
    program = getattr(own, spec["program"])
    by_replica, whole = (NamedSharding(program.mesh, PartitionSpec(*axes)) for axes in ((REPLICA,), ()))
    side_by_side = spec["replicas"] // spec["devices"]
    first = {
        "evaluate": most_words_of(spec, module),
        "train": shape_of(spec, module),
        "train_many": tuple(shape_of(spec, module, length) for length in LENGTHS_OF_MANY),
    }[spec["program"]]
    compiled = program.compiled((first, side_by_side), arguments_of(spec, module, by_replica, whole))
    versions = {name: metadata.version(name) for name in ("jax", COMPILERS[target.platform])}
    return {
        **counts(compiled, compiled.as_text()),
        "compile_seconds": round(program.compile_seconds, 1),
        "versions": versions,
    }


def main() -> None:
    spec = json.loads(sys.argv[1])
    os.environ.update(ENVIRONMENT[TARGETS[spec["target"]].platform])
    import jax

    jax.config.update("jax_enable_compilation_cache", False)  # a program from the cache takes no time to compile
    make = figures_on_several if spec.get("devices", 1) > 1 else figures
    print(json.dumps(make(spec)), flush=True)


if __name__ == "__main__":
    main()
