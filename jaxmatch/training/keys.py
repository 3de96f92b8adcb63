"""Random keys: the random numbers of a run depend on its seed and the step, and on nothing else.

Keys are derived by `fold_in`, never by splitting and carrying, so a resumed run only needs (seed, step). They are
always threefry keys. Under `vmap`, `rbg` keys take every replica's bits from the first key, so the seed of another run
would change a run's dropout masks.
"""

import jax
import jax.numpy as jnp

# Each purpose has a stream of its own; the numbers are part of what makes a run reproducible.
PURPOSES = {"parameters": 0, "dropout": 1}


def run_key(seed: jax.Array | int, purpose: str) -> jax.Array:
    """Returns the key of one run for one purpose. `seed` may be traced: `<uint32>[]`."""
    # The key of `jax.random.key(seed)` by default, without the offset that `JAX_RANDOM_SEED_OFFSET` adds to the seed.
    key = jax.random.wrap_key_data(jnp.array([0, seed], jnp.uint32), impl="threefry2x32")
    return jax.random.fold_in(key, PURPOSES[purpose])


def step_key(seed: jax.Array | int, purpose: str, step: jax.Array | int) -> jax.Array:
    """Returns the key of one run for one purpose at one step."""
    return jax.random.fold_in(run_key(seed, purpose), step)
