"""RE2's ensemble of the paper's Table 1: eight seeds, by voting and by averaged probability.

    jaxmatch sweep sweeps/re2_ensemble.py --data-directory DATA --vectors glove.840B.300d.zip --workdir runs/ensemble

`--dataset`: snli, for which the paper has figures, or scitail, quora, wikiqa or sick. `--setting` as in re2_main.py.
Single runs and the ensemble have a table each; `jaxmatch ensemble runs/ensemble` prints the second again. `--smoke`
tries it in seconds, without data files.
"""

from jaxmatch import Sweep, TableLayout, load_config
from jaxmatch.papers import re2


def get_sweep(dataset: str = "snli", setting: str = re2.CONFIGURED) -> Sweep:
    data = re2.data_set(dataset)
    config = re2.with_setting(dataset, load_config(data.config), setting)
    name_suffix, title_suffix = re2.name_and_title_suffix(setting)
    return Sweep(
        name=f"re2-ensemble-{dataset}{name_suffix}",
        config=config,
        grid={},
        seeds=tuple(range(re2.ENSEMBLE_SEEDS)),
        table=TableLayout(
            title=f"RE2 on {data.title}{title_suffix}, the runs of an ensemble",
            rows=(),
            scores=data.scores,
            published=re2.published_main(dataset, config)[:1],
            notes=re2.setting_notes(config, setting),
            ensembles=re2.published_ensembles(dataset),
        ),
        analyses={"ensemble": {}},
    )
