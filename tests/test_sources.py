"""The catalog and the config of a data set agree."""

from pathlib import Path

import pytest

from jaxmatch.data.sources import CATALOG
from jaxmatch.sweep.launcher_files import load_config
from jaxmatch.training.scores import score_names

CONFIGS = Path(__file__).parent.parent / "configs"


@pytest.mark.parametrize("name", CATALOG)
def test_every_source_has_a_config_that_selects_by_its_score(name):
    source, config = CATALOG[name], load_config(CONFIGS / f"re2_{name}.py")
    assert config.data.name == name
    assert config.training.selection == source.selection
    assert source.selection in score_names(source.task, len(source.labels))
