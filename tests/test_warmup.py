"""After `warmup`, requests of the given sizes compile nothing."""

import contextlib
from collections.abc import Iterator

import jax
import pytest
import saved_model

import jaxmatch

COMPILED = "/jax/core/compile/backend_compile_duration"
KINDS = {
    "plain": {},
    "characters": {"characters": "cnn", "character_features": 4},
    "exact_match": {"exact_match": True},
}


@contextlib.contextmanager
def compilations() -> Iterator[list[str]]:
    """Yields a list that grows with every program that is compiled."""
    compiled: list[str] = []

    def listen(event: str, *_: float, **named: str) -> None:
        if event == COMPILED:
            compiled.append(event)

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        yield compiled
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)


def matcher_of(folder, kind: str, **options) -> jaxmatch.Matcher:
    jax.clear_caches()  # drops what an earlier test compiled
    settings = {**saved_model.SETTINGS, **KINDS[kind]}
    params = saved_model.parameters(3, settings=settings)
    config = {"data": {"name": "own", "minimum_count": 1}, "model": settings}
    return jaxmatch.load(saved_model.save(folder, model_settings=settings, params=params, config=config), **options)


def pair_of(length: int, word: str = "a") -> tuple[str, str]:
    """Returns a pair of `length` tokens."""
    return " ".join([word] * (length - length // 2)), " ".join(["b"] * (length // 2))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("optimize_for_cpu", [True, False])
def test_requests_after_warmup_compile_nothing(tmp_path, kind, optimize_for_cpu):
    matcher = matcher_of(tmp_path / "run", kind, optimize_for_cpu=optimize_for_cpu)
    with compilations() as compiled:
        lengths = range(2, 21 if kind == "plain" else 13)
        matcher.warmup(lengths)
        assert compiled
        compiled.clear()
        for length in lengths:
            matcher.predict([pair_of(length)])
            matcher.predict([pair_of(length, word="zebra")] * 8)
        assert not compiled
        matcher.predict([pair_of(40)])  # shows that compilations are noticed
        assert compiled


@pytest.mark.parametrize(("size", "programs"), [(20, 1), (40, 2), (64, 1)])
def test_warmup_prepares_the_given_batch_sizes(tmp_path, size, programs):
    """A CPU computes 40 pairs as 32 and 8, and 64 pairs as 32 and 32."""
    matcher = matcher_of(tmp_path / "run", "plain")
    matcher.warmup([100], batch_sizes=(size,))
    assert len(matcher.model.predictor.programs) == programs
    with compilations() as compiled:
        matcher.predict([pair_of(100)] * size)
        matcher.predict([pair_of(100)] * 32)
        assert not compiled
        matcher.predict([pair_of(100)] * 16)
    assert compiled


def test_warmup_prepares_equal_padded_shapes_once(tmp_path):
    matcher = matcher_of(tmp_path / "run", "plain")
    matcher.warmup(range(2, 65))
    # Rows of 8, 12, 16, 24, 32, 48 and 64 tokens.
    assert len(matcher.model.predictor.programs) == 7
