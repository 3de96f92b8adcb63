import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from benchmarks import ceiling, steps
from benchmarks.items import replicas
from jaxmatch.sweep import matrix_products, preparation


def shape(*sizes):
    return jax.ShapeDtypeStruct(sizes, np.float32)


def test_matrix_products_in_scans_conditionals_and_jit_are_counted():
    def function(a, b):
        def body(carry, _):
            return carry @ b, None

        looped, _ = jax.lax.scan(body, a, None, length=3)
        return jax.jit(jnp.matmul)(looped, b) + jax.lax.cond(a[0, 0] > 0, lambda: a @ b, lambda: a)

    once = 5 * 4 * 4  # [5, 4] @ [4, 4]
    assert matrix_products.count(function, shape(5, 4), shape(4, 4)) == (5 * once, 5)
    # A batch of products counts as one, and both products of the backward pass count.
    assert matrix_products.count(jnp.matmul, shape(7, 2, 3), shape(7, 3, 5)) == (7 * 2 * 3 * 5, 1)
    gradients = jax.grad(lambda a, b: (a @ b).sum(), argnums=(0, 1))
    assert matrix_products.count(gradients, shape(5, 4), shape(4, 4)) == (3 * once, 3)


def test_loops_of_unknown_length_and_convolutions_are_only_estimated():
    def estimate(function, *arguments):
        return matrix_products.count_program(jax.make_jaxpr(function)(*arguments).jaxpr, exact=False)

    def forever(a):
        return jax.lax.while_loop(lambda carry: carry[0, 0] > 0, lambda carry: carry @ carry, a)

    with pytest.raises(ValueError, match="while"):
        matrix_products.count(forever, shape(3, 3))
    assert estimate(forever, shape(3, 3)) == (3**3, 1)  # one iteration
    convolution = functools.partial(jax.lax.conv, window_strides=(1,), padding="SAME")
    with pytest.raises(ValueError, match="convolution"):
        matrix_products.count(convolution, shape(1, 2, 8), shape(4, 2, 3))
    # 6 batches, 8 places, 4 features, 2 inputs and a window of 3.
    assert estimate(convolution, shape(6, 2, 8), shape(4, 2, 3)) == (6 * 8 * 4 * 2 * 3, 1)


def test_training_step_count_is_near_the_hand_count_and_scales_with_batch_size(quick):
    """Counts every product of identity alignment, simple fusion, simple prediction and one block of one layer."""
    config = quick.config("re2_embedded_inference", **steps.SMALL)
    data = preparation.prepare(config)
    batch, length, words, hidden, classes = 16, 10, data.vectors.shape[1], 8, len(data.labels)
    tokens, size = batch * length, words + hidden
    convolution = tokens * words * 3 * hidden
    attention = batch * length * length * size
    fusion = tokens * 2 * size * hidden
    hidden_layer, output = batch * 2 * hidden * hidden, batch * hidden * classes
    forward = convolution + 2 * attention + fusion + hidden_layer + output
    # The backward pass has two products for each product: one for the gradient of the parameters, and one for the
    # gradient of the inputs. The embeddings need no gradient.
    counted = steps.products_of_a_step(config, data, length).multiply_adds
    assert 2 * forward - 2 * attention <= counted <= 3 * forward - convolution
    # Twice the batch takes exactly twice the work.
    config = quick.config("re2_embedded_inference", **{**steps.SMALL, "training__batch_size": 2 * batch})
    assert steps.products_of_a_step(config, data, length).multiply_adds == 2 * counted


def test_a_length_is_filled_with_the_longest_pairs_that_fit(quick):
    data = preparation.prepare(quick.config("re2_embedded_inference"))
    lengths = data.splits["train"].lengths
    length = int(np.median(lengths))
    train = steps.of_length(data, length, 50).splits["train"]
    assert train.lengths.max() == length
    assert sorted(train.lengths) == sorted(lengths[lengths <= length])[-50:]
    assert len(steps.of_length(data, int(lengths.min()), 10_000).splits["train"].labels) == 10_000
    # Texts stay with their labels.
    order = np.argsort(-lengths, kind="stable")
    row = order[lengths[order] <= length][7]
    whole = data.splits["train"]
    assert train.labels[7] == whole.labels[row]
    ids, sentences = train.pair_rows()
    whole_ids, whole_sentences = whole.pair_rows()
    np.testing.assert_array_equal(ids[7], whole_ids[row, : ids.shape[1]])
    np.testing.assert_array_equal(sentences[7], whole_sentences[row, : ids.shape[1]])


def test_a_cpu_multiplies_float32_in_float32():
    if jax.default_backend() != "cpu":
        pytest.skip("this test needs the CPU backend")
    assert ceiling.default_products() == "float32"


def test_points_with_long_steps_or_too_little_memory_are_left_out(quick, monkeypatch):
    config = quick.config("re2_embedded_inference", **steps.SMALL)
    data = preparation.prepare(config)
    reason_to_skip = functools.partial(replicas.reason_to_skip, config, data, 10)
    assert reason_to_skip(4, 0.4, 6.0) == ""
    assert reason_to_skip(64, 6.4, 6.0) == "a step of about 6 s; --longest-step"
    assert reason_to_skip(64, 6.4, 7.0) == ""
    monkeypatch.setattr(replicas.memory, "device_bytes", lambda device: 2**20)
    assert "GiB" in reason_to_skip(64, 0.0, 6.0)


class Clock:
    """Steps with known times: every odd call is cold, and every even call is warm."""

    def __init__(self, cold, warm):
        self.cold, self.warm, self.timed_steps = cold, warm, []

    def mean_step_seconds(self, steps):
        self.timed_steps.append(steps)
        return self.warm if len(self.timed_steps) % 2 == 0 else self.cold

    def seconds(self):
        self.mean_step_seconds(1)
        return self.mean_step_seconds(1)


def test_cold_steps_are_not_counted_when_a_long_step_is_timed(monkeypatch):
    """Before each timed call of either object, an untimed warm-up call takes the cold time."""
    alone, all_runs = Clock(9.0, 2.0), Clock(99.0, 30.0)
    monkeypatch.setattr(steps, "Steps", lambda *_, replicas, length: all_runs)
    seconds = replicas.time_long_point(None, None, 10, 16, alone, {"sorted": lambda: 0.5}, 2)
    assert seconds == {"all": [30.0, 30.0], "alone": [2.0, 2.0], "sorted": [0.5, 0.5]}
    assert (alone.timed_steps, all_runs.timed_steps) == ([1, 4, 1, 4], [1, 1, 1, 1])


@pytest.mark.slow
@pytest.mark.parametrize("often", [6.0, 0.0], ids=["in turn", "by itself"])
def test_replicas_item_reports_ratios_and_throughput(quick, often, monkeypatch):
    monkeypatch.setattr(replicas, "LONG_STEP_SECONDS", often)
    rows, notes = replicas.run(quick)
    assert [row["replicas"] for row in rows] == [1, 2, 3]
    one, two, three = rows
    assert one["ratio"]["median"] == 1.0
    assert two["ratio"]["median"] == pytest.approx(two["milliseconds"]["median"] / 2 / one["milliseconds"]["median"])
    in_turn = pytest.approx(three["milliseconds"]["median"] / 3 / one["milliseconds"]["median"])
    assert (
        three["ratio"]["median"] == in_turn if often else three["ratio"]["median"] != in_turn
    )  # by itself, it is compared with other steps
    for row in rows:
        assert row["pairs"]["median"] == pytest.approx(row["replicas"] * 16 * 1e3 / row["milliseconds"]["median"])
    assert any("TFLOP/s" in note for note in notes)
