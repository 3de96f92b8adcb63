"""The learning rate as a function of the pairs seen."""

import jax
import jax.numpy as jnp

from jaxmatch.training.hyperparameters import Hyperparameters


def learning_rate(samples: jax.Array, hyperparameters: Hyperparameters) -> jax.Array:
    """Linear warmup, then exponential decay in steps (RE2, section 3.2; the released settings count in samples).

        samples < warmup:  floor + (rate - floor) * samples / warmup
        afterwards:        max(floor, rate * decay_rate ** floor((samples - warmup) / decay_samples))

    optax has these schedules, but with lengths and rates that are compiled in; here they are traced, so that runs which
    differ in them share a program.

    Arguments:
      samples: pairs seen before this step, `<int32>[]`.
      hyperparameters: of one run.

    Returns:
      The rate, `<float32>[]`.
    """
    h = hyperparameters
    seen = samples.astype(jnp.float32)
    rising = h.learning_rate_floor + (h.learning_rate - h.learning_rate_floor) * seen / jnp.maximum(h.warmup_samples, 1)
    periods = jnp.floor((seen - h.warmup_samples) / jnp.maximum(h.decay_samples, 1))
    falling = jnp.maximum(h.learning_rate_floor, h.learning_rate * h.decay_rate ** jnp.maximum(periods, 0))
    # A floor above the rate would otherwise raise a rate that does not decay.
    falling = jnp.minimum(falling, h.learning_rate)
    return jnp.where(seen < h.warmup_samples, rising, falling)
