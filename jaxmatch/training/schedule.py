"""The learning rate as a function of the number of pairs seen."""

import jax
import jax.numpy as jnp

from jaxmatch.training.hyperparameters import Hyperparameters


def learning_rate(samples: jax.Array, hyperparameters: Hyperparameters) -> jax.Array:
    """Computes the learning rate: linear warmup, then exponential decay in steps.

    It follows RE2, section 3.2; the released settings count in samples.

        samples < warmup:  floor + (rate - floor) * samples / warmup
        afterwards:        min(rate, max(floor, rate * decay_rate ** floor((samples - warmup) / decay_samples)))

    A floor above the rate does not raise the rate. Without `decay_samples`, there is no decay.

    optax has these schedules, but with lengths and rates that are compiled in. Here they are traced, so that runs that
    differ in them share a program.

    Arguments:
      samples: the number of pairs seen before this step, `<int32>[]`.
      hyperparameters: the hyperparameters of one run.

    Returns:
      The rate, `<float32>[]`.
    """
    h = hyperparameters
    seen = samples.astype(jnp.float32)
    warmup_rate = h.learning_rate_floor + (h.learning_rate - h.learning_rate_floor) * seen / jnp.maximum(
        h.warmup_samples, 1
    )
    periods = jnp.floor((seen - h.warmup_samples) / jnp.maximum(h.decay_samples, 1))
    periods = jnp.where(h.decay_samples > 0, jnp.maximum(periods, 0), 0)
    decayed_rate = jnp.maximum(h.learning_rate_floor, h.learning_rate * h.decay_rate**periods)
    decayed_rate = jnp.minimum(decayed_rate, h.learning_rate)
    return jnp.where(seen < h.warmup_samples, warmup_rate, decayed_rate)
