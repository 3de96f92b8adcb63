"""Fixtures and hooks of all tests."""

import os
import shutil
import signal
from pathlib import Path

import pytest

# A background job of a script starts with SIGINT ignored. The commands that tests interrupt would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


# These files take minutes, and much of that time is spent waiting.
LONGEST = ("test_on_ray.py", "test_hosts.py")


def pytest_collection_modifyitems(items):
    """Puts the longest files first. A worker that is done then takes short tests from others, and all end together."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: (item.path.name not in LONGEST, item.path not in slow))


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder with the official data files, which JAXMATCH_DATA names."""
    folder = os.environ.get("JAXMATCH_DATA")
    if not folder:
        pytest.skip("JAXMATCH_DATA does not name a folder with the official data files")
    if not Path(folder).is_dir():
        pytest.skip(f"JAXMATCH_DATA names {folder}, which is not a folder")
    return Path(folder)


@pytest.fixture(scope="session")
def tagger() -> None:
    """Skips the test if NLTK's tagger is not installed."""
    from jaxmatch.data.text import tagger_files
    from jaxmatch.errors import InputError

    try:
        tagger_files()
    except InputError as error:
        pytest.skip(str(error))


@pytest.fixture
def few_pairs(monkeypatch) -> None:
    """Makes the generated data sets small, because a training step is slow without XLA's optimizations."""
    from jaxmatch.data import generated

    for kind, sizes in generated.SIZES.items():
        monkeypatch.setitem(generated.SIZES, kind, {name: max(40, size // 10) for name, size in sizes.items()})


@pytest.fixture
def settled(monkeypatch):
    """Makes files that a test has just written count as old, so that their digests are stored."""
    from jaxmatch.data import encoding

    monkeypatch.setattr(encoding, "TIMESTAMP_RESOLUTION_NS", -(10**10))


@pytest.fixture
def strict_promotion():
    """Makes JAX refuse to promote types and shapes."""
    import jax

    with jax.numpy_dtype_promotion("strict"), jax.numpy_rank_promotion("raise"):
        yield


@pytest.fixture
def no_tagger(monkeypatch, tmp_path):
    """Hides the models of NLTK."""
    import nltk.data

    from jaxmatch.data.text import nltk_tagger

    monkeypatch.setattr(nltk.data, "path", [str(tmp_path)])
    nltk_tagger.cache_clear()
    yield
    nltk_tagger.cache_clear()


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    """The folder of a run with a small model of random weights."""
    import saved_model

    return saved_model.save(tmp_path_factory.mktemp("workdir") / "runs" / "some-seed1")


@pytest.fixture
def run_copy(run, tmp_path) -> Path:
    """A copy of the folder of `run`, which a test may damage."""
    return shutil.copytree(run, tmp_path / "copy")


@pytest.fixture(scope="module")
def binary(tmp_path_factory) -> Path:
    """The folder of a run like `run` whose model has two labels."""
    import saved_model

    return saved_model.save(tmp_path_factory.mktemp("binary") / "run", labels=("0", "1"))


@pytest.fixture(scope="session")
def small_files(tmp_path_factory) -> Path:
    """The files of the small sweep: pairs, vectors, the sweep itself."""
    import small_sweep

    return small_sweep.write_files(tmp_path_factory.mktemp("small_sweep"))


@pytest.fixture(scope="module")
def slurm(tmp_path_factory):
    """A Slurm cluster of two nodes, for the commands of a module's tests."""
    import slurm_nodes

    if missing := slurm_nodes.missing_requirement():
        pytest.skip(missing)
    nodes = slurm_nodes.Nodes(tmp_path_factory.mktemp("slurm") / "cluster")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in nodes.variables.items():
            patch.setenv(name, value)
        yield nodes
    nodes.close()


@pytest.fixture(scope="session")
def one_process(small_files, tmp_path_factory):
    """The table and the results of the sweep that tests of Ray train, from one process without Ray."""
    import ray_driver

    return ray_driver.alone(small_files, tmp_path_factory.mktemp("one_process"))


@pytest.fixture(scope="session")
def finished_sweep(small_files):
    """The folder of the small sweep after training, its table, and its watcher. Tests must not change the folder."""
    import small_sweep

    workdir = small_files / "finished"
    return (workdir, *small_sweep.launched(small_files, workdir))


@pytest.fixture
def sweep_copy(finished_sweep, tmp_path) -> Path:
    """A copy of the folder of `finished_sweep`, which a test may change."""
    return shutil.copytree(finished_sweep[0], tmp_path / "copy")


@pytest.fixture
def restored_registries():
    """Removes what a test added to the package (jaxmatch/extend.py)."""
    from jaxmatch import extend, models
    from jaxmatch.config.models import MODELS
    from jaxmatch.config.settings import ADDED_DEFAULTS, SCORES, SECTIONS
    from jaxmatch.data.catalog import CATALOG
    from jaxmatch.training import scores, step

    registries = (
        *(models.MODELS, MODELS, SECTIONS, ADDED_DEFAULTS),
        *(SCORES, CATALOG, step.ADDED, scores.ADDED, extend.ADDED),
    )
    before = [dict(registry) for registry in registries]
    yield
    for registry, content in zip(registries, before):
        registry.clear()
        registry.update(content)
