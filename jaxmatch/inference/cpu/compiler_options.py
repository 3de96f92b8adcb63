"""Compiler options for programs that predict on a CPU."""

import functools

import jax

# By default XLA computes most matrix products with the library YNNPACK, and uses vectors of 256 bits even on CPUs with
# vectors of 512. For small batches Eigen and 512 bits are faster; for a training step they are not
# (benchmarks/NOTES.md).
# https://docs.jax.dev/en/latest/201/controlling-xla.html describes such options.
OPTIONS = {"xla_cpu_experimental_ynn_fusion_type": "", "xla_cpu_prefer_vector_width": 512}


@functools.cache
def compiler_options() -> dict[str, str | int]:
    """Returns options for `jax.jit`: those of `OPTIONS` that the installed compiler knows."""
    return {name: value for name, value in OPTIONS.items() if _is_known({name: value})}


def _is_known(options: dict[str, str | int]) -> bool:
    try:
        jax.jit(lambda: 0, compiler_options=options).lower().compile()
    except jax.errors.JaxRuntimeError:
        return False
    return True
