import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxmatch.layers.core import Dropout, random_levels

ONES = jnp.ones((50, 41))


@jax.jit
def drop(key, rate, inputs=ONES):
    return Dropout().apply({}, inputs, rate, rngs={"dropout": key})


def test_rate_zero_and_no_rate_return_the_inputs():
    inputs = jax.random.normal(jax.random.key(1), (3, 5))
    np.testing.assert_array_equal(drop(jax.random.key(0), 0.0, inputs), inputs)
    np.testing.assert_array_equal(Dropout().apply({}, inputs, None), inputs)


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_dropped_share_equals_the_rate_and_kept_values_are_rescaled(rate):
    outputs = np.asarray(drop(jax.random.key(0), rate))
    share = (outputs == 0).mean()
    assert abs(share - rate) < 4 * np.sqrt(rate * (1 - rate) / outputs.size)
    np.testing.assert_allclose(outputs[outputs != 0], 1 / (1 - rate), rtol=1e-4)


def test_mask_is_fixed_by_the_key_and_a_higher_rate_drops_a_superset():
    low, again, high = drop(jax.random.key(0), 0.2), drop(jax.random.key(0), 0.2), drop(jax.random.key(0), 0.3)
    np.testing.assert_array_equal(low, again)
    assert np.all(np.asarray(high)[np.asarray(low) == 0] == 0)
    assert np.any(np.asarray(drop(jax.random.key(1), 0.2)) != np.asarray(low))


def test_masks_under_vmap_equal_masks_computed_separately():
    keys, rates = jax.random.split(jax.random.key(3), 3), jnp.array([0.2, 0.0, 0.7])
    together = jax.jit(jax.vmap(lambda key, rate: Dropout().apply({}, ONES, rate, rngs={"dropout": key})))(keys, rates)
    for row in range(3):
        np.testing.assert_array_equal(together[row], drop(keys[row], rates[row]))


def test_all_rates_share_one_compiled_program():
    before = drop._cache_size()
    for rate in (0.15, 0.25, 0.35):
        drop(jax.random.key(0), rate)
    assert drop._cache_size() <= before + 1


def test_gradient_is_zero_where_dropped_and_rescaled_where_kept():
    gradient = jax.grad(lambda inputs: drop(jax.random.key(0), 0.5, inputs).sum())(ONES)
    np.testing.assert_array_equal(gradient, drop(jax.random.key(0), 0.5))


@pytest.mark.parametrize("shape", [(1,), (7, 3), (64, 64)])
def test_random_levels_are_uniform_over_16_bits_and_uncorrelated(shape):
    levels = np.asarray(random_levels(jax.random.key(5), shape))
    assert levels.shape == shape
    assert levels.dtype == np.uint32 and levels.max() < 1 << 16
    if levels.size > 1000:
        counts = np.bincount(levels.ravel() >> 12, minlength=16)
        expected = levels.size / 16
        assert np.all(np.abs(counts - expected) < 5 * np.sqrt(expected))
        # Neighbors, and the same place with the next key, must not be correlated.
        assert abs(np.corrcoef(levels.ravel()[::2], levels.ravel()[1::2])[0, 1]) < 0.1
        other = np.asarray(random_levels(jax.random.key(6), shape))
        assert abs(np.corrcoef(levels.ravel(), other.ravel())[0, 1]) < 0.1


def test_random_levels_equal_recorded_values_in_any_layout():
    """Levels are integers that depend on the key and the place alone, not on the device or the layout."""
    known = [[0, 22773, 13910], [26501, 36825, 54458]]
    np.testing.assert_array_equal(random_levels(jax.random.key(0), (2, 3)), known)
    np.testing.assert_array_equal(
        jax.jit(random_levels, static_argnums=1)(jax.random.key(0), (3, 2)).reshape(2, 3), known
    )
    keys = jax.vmap(jax.random.fold_in, (None, 0))(jax.random.key(0), jnp.arange(3))
    together = jax.vmap(lambda key: random_levels(key, (2, 3)), out_axes=-1)(keys)
    for row in range(3):
        np.testing.assert_array_equal(together[..., row], random_levels(keys[row], (2, 3)))


@pytest.mark.parametrize("first", [0, 1, 2])
def test_masks_of_consecutive_keys_and_positions_are_uncorrelated(first):
    """Any two of 256 consecutive keys, and any two of 64 consecutive places, drop together as often as by chance."""
    keys = jax.vmap(jax.random.fold_in, (None, 0))(jax.random.key(first), jnp.arange(256))
    dropped = np.asarray(jax.vmap(lambda key: random_levels(key, (64, 64)))(keys).reshape(256, -1) < 1 << 14)
    for axis in (dropped[:, :2048], dropped.reshape(256, 64, 64)[:, :32].reshape(-1, 64).T):
        found = np.corrcoef(axis)[np.triu_indices(len(axis), 1)]
        assert np.abs(found).max() < 6 / np.sqrt(axis.shape[1])
