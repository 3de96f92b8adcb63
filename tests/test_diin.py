"""DIIN against NumPy, written from the equations of its paper (Gong et al., 2018, section 3)."""

import itertools

import jax.numpy as jnp
import numpy as np
import pytest
from random_parameters import check_logits, linear, random_parameters
from scipy.special import expit as sigmoid
from scipy.special import softmax
from test_models import shapes

from jaxmatch.errors import InputError
from jaxmatch.models import build
from jaxmatch.models.diin import max_pool

LENGTH = 8
SMALL = {"name": "diin", "grid_length": LENGTH, "dense_blocks": 2, "block_layers": 2, "growth_rate": 3}
RANDOM = np.random.default_rng(5)
VECTORS = jnp.asarray(RANDOM.normal(size=(30, 16)), jnp.float32)
# The second sentence of the first pair is longer than the grid.
IDS_A = np.array([[3, 4, 5, 6, 7, 8, 9, 0, 0, 0], [8, 9, 10, 0, 0, 0, 0, 0, 0, 0]], np.int32)
IDS_B = np.array([[12, 13, 4, 14, 15, 16, 17, 18, 19, 20], [2, 3, 4, 5, 6, 7, 21, 22, 0, 0]], np.int32)


def highway(words, params):
    for number in range(2):
        layer = params[f"layer_{number}"]
        gate = sigmoid(linear(layer["gate"], words))
        words = gate * np.maximum(linear(layer["transform"], words), 0) + (1 - gate) * words
    return words


def encoded(words, params):
    """Computes Eq. 1 to 6 for the tokens of one sentence. The part of w for p_i cancels in the softmax."""
    of_other, of_product = np.split(np.asarray(params["attention"], np.float64)[:, 0], 2)
    scores = [[of_other @ other + of_product @ (own * other) for other in words] for own in words]
    both = np.concatenate([words, softmax(np.array(scores), axis=-1) @ words], axis=1)
    candidate, keep, let_in = (linear(params[name], both) for name in ("candidate", "keep", "let_in"))
    return sigmoid(keep) * words + sigmoid(let_in) * np.tanh(candidate)


def convolved(grid, kernel):
    """Computes a 3 x 3 correlation, one position at a time."""
    height, width, _ = grid.shape
    outputs = np.zeros((height, width, kernel.shape[-1]))
    for y, x, down, right in itertools.product(range(height), range(width), range(-1, 2), range(-1, 2)):
        if 0 <= y + down < height and 0 <= x + right < width:
            outputs[y, x] += grid[y + down, x + right] @ kernel[down + 1, right + 1]
    return outputs


def pooled(grid):
    height, width, channels = grid.shape
    squares = [grid[y : y + 2, x : x + 2].max(axis=(0, 1)) for y in range(0, height, 2) for x in range(0, width, 2)]
    return np.array(squares).reshape(height // 2, width // 2, channels)


def reference(params, ids_a, ids_b):
    """Returns the logits of one pair without padding."""
    sides = [np.asarray(VECTORS, np.float64)[ids[:LENGTH]] for ids in (ids_a, ids_b)]
    encoder = params["encoder"]
    a, b = (
        encoded(highway(words, encoder["highway"]), encoder[f"attention_{which}"])
        for which, words in zip((1, 2), sides, strict=True)
    )
    grid = np.zeros((LENGTH, LENGTH, a.shape[1]))
    for (i, one), (j, other) in itertools.product(enumerate(a), enumerate(b)):
        grid[i, j] = one * other
    grid = linear(params["interaction"]["scale_down"], grid)
    for block in ("block_0", "block_1"):
        for layer in ("layer_0", "layer_1"):
            weights = params[block][layer]
            new = convolved(grid, np.asarray(weights["kernel"], np.float64)) + np.asarray(weights["bias"])
            grid = np.concatenate([grid, np.maximum(new, 0)], axis=-1)
        grid = pooled(linear(params[block]["transition"], grid))
    return linear(params["output"], grid.ravel())


def test_logits_match_the_equations_of_the_paper():
    module = build(SMALL, outputs=3)
    params = random_parameters(module, {"ids": IDS_A}, {"ids": IDS_B}, VECTORS, seed=1)
    expected = np.array([reference(params, a[a > 0], b[b > 0]) for a, b in zip(IDS_A, IDS_B, strict=True)])
    assert np.ptp(expected, axis=0).min() > 1e-2 * np.abs(expected).max()  # the pairs differ
    check_logits(module, params, IDS_A, IDS_B, VECTORS, expected)


def test_the_encoder_can_be_shared():
    found = shapes(SMALL | {"shared_encoder": True})
    assert set(found["encoder"]) == {"highway", "attention_1"}


def test_pooling_drops_the_last_row_and_column_of_an_odd_grid():
    grid = RANDOM.normal(size=(1, 5, 7, 2)).astype(np.float32)
    np.testing.assert_array_equal(max_pool(jnp.asarray(grid))[0], pooled(grid[0, :4, :6]))


def test_a_grid_too_small_for_its_blocks_is_refused():
    with pytest.raises(InputError, match="the grid is too small for its dense blocks; give a larger model.grid_length"):
        shapes(SMALL | {"grid_length": 3})
