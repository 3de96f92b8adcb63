"""The compiler options of programs that predict on a CPU."""

import jax
import numpy as np
import pytest

from jaxmatch.inference import cpu


@pytest.fixture
def empty_cache():
    """Clears the cache of compiler options before and after the test."""
    cpu.compiler_options.cache_clear()
    yield
    cpu.compiler_options.cache_clear()


def test_options_unknown_to_the_compiler_are_left_out(monkeypatch, empty_cache):
    monkeypatch.setattr(cpu, "OPTIONS", {"xla_no_such_option": True, "xla_cpu_prefer_vector_width": 256})
    assert cpu.compiler_options() == {"xla_cpu_prefer_vector_width": 256}


@pytest.mark.skipif(jax.default_backend() != "cpu", reason="the options are for the CPU compiler")
def test_matrix_products_use_eigen_instead_of_ynnpack():
    def library(options):
        factors = np.ones((320, 150), np.float32), np.ones((150, 450), np.float32)
        return (
            "__ynn_fusion" in jax.jit(lambda a, b: a @ b, compiler_options=options).lower(*factors).compile().as_text()
        )

    if not library(None):
        pytest.skip("this version of JAX leaves products to Eigen itself")
    assert not library(cpu.compiler_options())
