"""Replicas that are computed a few at a time give the same results in less memory."""

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_cohort import alike, make_cohort

from jaxmatch.training import replicas, signature_programs


@given(st.integers(1, 500), st.one_of(st.none(), st.integers(1, 64)))
def test_at_once_divides_the_replicas_and_respects_the_maximum(count, most):
    side_by_side = replicas.at_once(count, most)
    assert count % side_by_side == 0
    assert side_by_side == count if most is None else side_by_side <= most
    assert most is None or count > most or side_by_side == count


@given(st.integers(1, 500), st.one_of(st.none(), st.integers(1, 64)), st.integers(1, 64))
def test_memory_limit_gives_the_fewest_possible_turns(count, most, limit):
    side_by_side = replicas.at_once(count, most, limit)
    without = replicas.at_once(count, most)
    if without <= limit:
        assert side_by_side == without
    else:
        assert side_by_side <= limit
        assert -(-count // side_by_side) == -(-count // limit)


def test_cpus_compute_few_replicas_at_once_and_accelerators_all():
    assert [replicas.most_at_once(batch, "cpu") for batch in (16, 64, 128, 512, 2048)] == [8, 2, 1, 1, 1]
    assert replicas.most_at_once(64, "gpu") is None
    assert [replicas.at_once(count, 4) for count in (3, 4, 5, 6, 8, 10)] == [3, 4, 1, 3, 4, 2]
    assert [replicas.at_once(count, None, 4) for count in (3, 4, 5, 6, 8, 10)] == [3, 4, 3, 3, 4, 4]


@pytest.mark.parametrize("side_by_side", [5, 4, 3, 2, 1])  # with 3 one replica is computed twice
def test_over_replicas_equals_the_function_of_each_replica(side_by_side):
    def function(tree, x):
        return {"sum": tree["a"] + x, "product": tree["b"] @ tree["b"].T}

    given_arrays = {"a": np.arange(4.0), "b": np.arange(24, dtype=np.float32).reshape(4, 2, 3)}, np.ones((4, 5))
    found = jax.jit(lambda *arrays: replicas.over_replicas(function, arrays, side_by_side))(*given_arrays)
    for replica in range(4):
        one = function(*jax.tree.map(lambda leaf: leaf[replica], given_arrays))
        jax.tree.map(lambda all_of_them, alone: np.testing.assert_allclose(all_of_them[replica], alone), found, one)


@pytest.fixture
def few_at_a_time(monkeypatch):
    """Makes a CPU compute two replicas at a time, as it does with large batches."""
    signature_programs.programs.cache_clear()
    monkeypatch.setattr(replicas, "PAIRS_AT_ONCE_ON_A_CPU", 32)
    yield
    signature_programs.programs.cache_clear()


def loops(cohort, name):
    """Returns how many loops each program of that name has."""
    executables = getattr(cohort.lockstep.programs, name).executables
    return [compiled.as_text().count(" while(") for compiled in executables.values()]


def test_training_a_few_replicas_at_a_time_equals_training_all_at_once(monkeypatch, few_at_a_time):
    arguments = {"seeds": (7, 1, 2, 3), "optimizer": [{}, {"learning_rate": 1e-3}, {"dropout_rate": 0.5}, {}]}
    arguments["training"] = {"maximum_buckets": 1}
    in_turn = make_cohort(**arguments)
    ended = in_turn.train()
    monkeypatch.undo()
    signature_programs.programs.cache_clear()
    side_by_side = make_cohort(**arguments)
    others = side_by_side.train()
    alike(ended, others, atol=1e-5)
    assert [one.test["loss"] for one in ended] == pytest.approx([one.test["loss"] for one in others], abs=1e-5)
    for name in ("train", "evaluate") if jax.default_backend() == "cpu" else ():  # elsewhere all are computed at once
        assert min(loops(in_turn, name)) > max(loops(side_by_side, name))
