import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from benchmarks import bare_products, ceiling
from benchmarks.items import inference, matching
from benchmarks.random_model import random_model
from benchmarks.settings import Settings


@pytest.fixture
def quick(tmp_path):
    return Settings(data_directory="", vectors="", peer="", peer_python="", rounds=1, quick=True, scratch=tmp_path)


def test_bare_products_are_all_products_and_nothing_else(monkeypatch):
    def function(a, b):
        return jnp.tanh(jax.jit(jnp.matmul)(a, b)) @ b + jnp.exp(b).sum() + (a @ b).sum()

    seen, compile_it = [], jax.jit

    def jit(program, **options):
        compiled = compile_it(program, **options)
        if program.__name__ != "products":
            return compiled
        return types.SimpleNamespace(lower=lambda factors: seen.append((program, factors)) or compiled.lower(factors))

    left, right = jax.ShapeDtypeStruct((5, 4), np.float32), jax.ShapeDtypeStruct((4, 4), np.float32)
    monkeypatch.setattr(bare_products.jax, "jit", jit)
    bare_products.of(function, left, right)()
    monkeypatch.undo()
    ((program, factors),) = seen
    assert ceiling.count(program, factors) == ceiling.count(function, left, right) == (3 * 5 * 4 * 4, 3)
    assert {equation.primitive.name for equation in jax.make_jaxpr(program)(factors).eqns} == {"dot_general"}
    # The second and the third product have one right factor, as there; the first stands in a program of its own.
    assert sorted(factor.shape for factor in factors.values()) == [(4, 4)] * 2 + [(5, 4)] * 3


def test_a_random_model_answers():
    model = random_model(
        {"blocks": 1, "encoder_layers": 1, "hidden_size": 8}, vectors=np.ones((9, 4), np.float32), outputs=3
    )
    ids = np.array([[2, 3, 0], [4, 0, 0]], np.int32)
    assert model.logits(ids, ids[::-1]).shape == (2, 3)
    _, parameters = model.folded
    names = {path[-1].key for path, _ in jax.tree_util.tree_leaves_with_path(parameters)}
    assert not names & {"direction", "gain"}


@pytest.mark.slow
def test_inference_runs(quick, monkeypatch):
    monkeypatch.setattr(inference, "BLOCKS", (1,))
    rows, notes = inference.run(quick)
    (row,) = rows
    assert row["of_bare"]["median"] == pytest.approx(row["ours"]["median"] / row["bare"]["median"])
    assert row["of_left"]["median"] == pytest.approx(row["ours"]["median"] / row["left"]["median"])
    assert any("products of the 10,000 words' vectors" in note for note in notes)
    assert "peer" not in row


@pytest.mark.slow
def test_matching_runs(quick):
    rows, notes = matching.run(quick)
    (row,) = rows
    assert row["what"] == "embedded_inference test, 50 pairs"
    assert row["ours"]["median"] > 0
    assert 0 < row["tokenising"]["median"] < 1
    assert any("first call" in note for note in notes)
