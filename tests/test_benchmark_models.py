import jax
import pytest

from benchmarks import compilation
from benchmarks.items import models
from benchmarks.memory_worker import compiled_bytes
from benchmarks.settings import Settings


@pytest.mark.slow
def test_the_item_runs(tmp_path, monkeypatch):
    monkeypatch.setattr(models, "QUICK_MODELS", models.QUICK_MODELS[:1])
    monkeypatch.setattr(models, "REPLICAS", 2)
    settings = Settings(data_directory="", vectors="", peer="", peer_python="", rounds=1, quick=True, scratch=tmp_path)
    seen = []
    compile_step = compilation.compile_step

    def kept(*arguments, **named):
        seen.append((compile_step(*arguments, **named), named, jax.config.jax_enable_compilation_cache))
        return seen[-1][0]

    monkeypatch.setattr(compilation, "compile_step", kept)
    enabled = jax.config.jax_enable_compilation_cache
    (row,), _ = models.run(settings)
    assert row["model"] == "RE2" and row["parameters"] > 1000
    assert row["step"]["median"] > 0 and row["answer"]["median"] > 0
    (((executable, seconds), named, afterwards),) = seen
    assert row["compile"] == seconds > 0 and afterwards == enabled
    assert named["replicas"] == 2
    # Both runs' parameters and moments are arguments of the program, and the best parameters come on top.
    assert compiled_bytes(executable) > 2 * 3 * 4 * row["parameters"]
    assert row["memory"] > 4 * 4 * row["parameters"] / 2**20
