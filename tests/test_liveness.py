import jax
import jax.numpy as jnp
import numpy as np

from jaxmatch.sweep.liveness import peak_bytes


def peak(function, *shapes):
    arrays = [jax.ShapeDtypeStruct(shape, np.float32) for shape in shapes]
    return peak_bytes(jax.make_jaxpr(function)(*arrays).jaxpr)


def test_chain_of_products_keeps_two_arrays_alive():
    a, b = (10, 10), (10, 10)
    assert peak(lambda a, b: a @ b, a, b) == 400
    assert peak(lambda a, b: ((a @ b) @ b) @ b, a, b) == 800


def test_element_wise_operations_are_fused_and_keep_their_inputs_alive():
    a, b = (10, 10), (10, 10)
    assert peak(lambda a, b: jnp.exp(jnp.sin(a @ b)) + 1, a, b) == 800  # the product and the result

    def late(a, b):
        first = a @ b
        wave = jnp.sin(first)  # fused and not written, so `first` stays alive until `wave` is used
        second = (a @ a) @ (b @ b)
        return (second @ wave).sum()

    # `first` and the three products of `second`, later `second`, `first`, the wave as a factor and the last product.
    assert peak(late, a, b) == 1600


def test_activations_kept_for_the_backward_pass_are_counted():
    def loss(weights, inputs):
        for _ in range(5):
            inputs = jnp.tanh(inputs @ weights)
        return inputs.sum()

    shapes = (10, 10), (100, 10)
    forward, backward = peak(loss, *shapes), peak(jax.grad(loss), *shapes)
    layer = 4 * 100 * 10
    assert forward <= 3 * layer
    assert backward >= 5 * layer
    # Twice the rows need twice the activations. The gradient of the weights does not grow.
    assert peak(jax.grad(loss), (10, 10), (200, 10)) - backward >= 5 * layer


def test_nested_jitted_functions_are_counted_inline():
    def inner(a, b):
        return (a @ b) @ b

    assert peak(jax.jit(inner), (10, 10), (10, 10)) == peak(inner, (10, 10), (10, 10)) == 800
    # A computed factor is written, here inside a wrapper.
    assert peak(lambda a, b: jax.nn.relu(a) @ b, (10, 10), (10, 10)) == 800
