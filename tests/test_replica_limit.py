"""How many replicas fit is found from the memory that a few compiled programs need and that the devices have."""

import functools
import types

import jax
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxmatch.training import replicas, replicas_at_once


def executable(taken):
    """Returns a stand-in for a compiled program that takes this many bytes."""
    stats = types.SimpleNamespace(temp_size_in_bytes=taken, output_size_in_bytes=30, alias_size_in_bytes=30)
    return types.SimpleNamespace(memory_analysis=lambda: stats)


@given(st.integers(1, 100), st.integers(1, 10_000), st.integers(0, 20_000), st.integers(-1000, 200_000))
def test_the_limit_fits_in_memory_and_few_programs_are_compiled(count, each, fixed, free):
    tried = []

    def compiled(side_by_side):
        tried.append(side_by_side)
        return executable(fixed + each * side_by_side)

    limit = replicas_at_once.limit_that_fits(functools.partial(replicas.at_once, count, None), compiled, None, free)
    settled = replicas.at_once(count, None, limit)
    assert settled == 1 or fixed + each * settled <= free
    assert tried == sorted(set(tried), reverse=True)
    assert len(tried) <= 3 or fixed > each
    assert tried[-1:] == [settled] or settled == 1
    if fixed == 0 and settled > 1:  # as many are computed at a time as fit
        assert settled == replicas.at_once(count, None, max(1, free // each))


def test_fewer_replicas_are_tried_if_compilation_runs_out_of_memory():
    def compiled(side_by_side):
        if side_by_side > 3:
            raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Ran out of memory in memory space hbm.")
        return executable(50)

    assert replicas_at_once.limit_that_fits(functools.partial(replicas.at_once, 10, None), compiled, None, 100) == 2

    def broken(side_by_side):
        raise jax.errors.JaxRuntimeError("INTERNAL: no")

    with pytest.raises(jax.errors.JaxRuntimeError, match="INTERNAL"):
        replicas_at_once.limit_that_fits(lambda limit: 2, broken, None, 100)


def test_free_bytes_are_those_of_the_device_with_least_free_memory():
    def device(**stats):
        return types.SimpleNamespace(memory_stats=lambda: stats or None)

    assert (
        replicas_at_once.free_bytes(
            [device(bytes_limit=1000, bytes_in_use=100), device(bytes_limit=1000, bytes_in_use=300)]
        )
        == 650
    )
    assert replicas_at_once.free_bytes([device(bytes_limit=1000), device()]) is None
    if jax.default_backend() == "cpu":
        assert replicas_at_once.free_bytes(jax.devices()) is None
