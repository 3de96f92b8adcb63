"""How programs that answer are compiled for a CPU."""

import functools

import jax

# XLA hands most products of a CPU's program to the library YNNPACK; no kind of equations shall go there, but to Eigen, which XLA
# has beside it. And it computes with vectors of 256 bits where the CPU has such of 512. For small batches both are slower, for a
# training step they are not (benchmarks/NOTES.md). https://docs.jax.dev/en/latest/201/controlling-xla.html tells of such options.
_OPTIONS = {"xla_cpu_experimental_ynn_fusion_type": "", "xla_cpu_prefer_vector_width": 512}


@functools.cache
def for_answers() -> dict[str, str | int]:
    """Options of `jax.jit`: those of ours that the compiler knows; another version of JAX may have others."""
    return {name: value for name, value in _OPTIONS.items() if _known({name: value})}


def _known(options: dict[str, str | int]) -> bool:
    try:
        jax.jit(lambda: 0, compiler_options=options).lower().compile()
    except jax.errors.JaxRuntimeError:
        return False
    return True
