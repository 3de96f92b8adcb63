import jax
import pytest

from benchmarks.items import compilation, models


@pytest.mark.slow
def test_models_run(quick, monkeypatch):
    monkeypatch.setattr(models, "QUICK_MODELS", models.QUICK_MODELS[2:])
    (row,), _ = models.run(quick)
    assert row["model"] == "ESAN" and row["parameters"] > 1000  # with all word features
    assert row["step"]["median"] > 0 and row["answer"]["median"] > 0


@pytest.mark.slow
def test_compilation_benchmark_runs_and_restores_the_cache_setting(quick, monkeypatch):
    monkeypatch.setattr(models, "QUICK_MODELS", models.QUICK_MODELS[:1])
    monkeypatch.setattr(compilation, "REPLICAS", 2)
    enabled, seen = jax.config.jax_enable_compilation_cache, []
    compiled_bytes = compilation.compiled_bytes

    def recorded_bytes(executable):
        seen.append(compiled_bytes(executable))
        return seen[-1]

    monkeypatch.setattr(compilation, "compiled_bytes", recorded_bytes)
    (row,), _ = compilation.run(quick)
    assert jax.config.jax_enable_compilation_cache == enabled
    assert row["seconds"] > 0 and row["planned"] > 0
    (program_bytes,) = seen
    # The parameters and moments of both runs are arguments of the program. The best parameters are counted in addition.
    parameters = (row["memory"] * 2**20 - program_bytes / 2) / 4
    assert parameters > 1000 and program_bytes > 2 * 3 * 4 * parameters
