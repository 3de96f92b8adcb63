"""RE2's ensemble of the paper's Table 1: eight seeds, by voting and by averaged probability.

    jaxmatch sweep sweeps/re2_ensemble.py --data-directory DATA --vectors glove.840B.300d.zip --workdir runs/ensemble

`--dataset`: snli, of which the paper has figures, or scitail, quora, wikiqa or sick. Single runs and the ensemble have
a table each; `jaxmatch ensemble runs/ensemble` prints the second again. `--smoke` tries it in seconds, without data
files.
"""

from jaxmatch import Sweep, TableLayout, load_config
from jaxmatch.papers import re2, re2_settings


def get_sweep(dataset: str = "snli") -> Sweep:
    data = re2.data_set(dataset)
    config = load_config(data.config)
    return Sweep(
        name=f"re2-ensemble-{dataset}",
        config=config,
        grid={},
        seeds=tuple(range(re2.ENSEMBLE_SEEDS)),
        table=TableLayout(
            title=f"RE2 on {data.title}, the runs of an ensemble",
            rows=(),
            scores=data.scores,
            published=re2.published_main(dataset, config)[:1],
            notes=re2_settings.setting_notes(config),
            ensembles=re2.published_ensembles(dataset),
        ),
        analyses={"ensemble": {}},
    )
