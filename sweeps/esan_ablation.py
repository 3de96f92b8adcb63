"""ESAN's ablation, the paper's Table 4: four variants of its setting for Quora, five seeds each, compared on dev.

    jaxmatch sweep sweeps/esan_ablation.py --data-directory DATA --vectors glove.840B.300d.zip \\
        --workdir runs/esan_ablation

`--dataset`: quora, or snli or multinli, for which the paper gives no figures. `--features none` leaves out the
characters of the words, and on the other sets part of speech and exact match. `--smoke` tries it in seconds, without
data files.
"""

from jaxmatch import Sweep, TableLayout, load_config
from jaxmatch.papers import published
from jaxmatch.papers.esan_csran import esan


def get_sweep(dataset: str = "quora", features: str = published.PAPER) -> Sweep:
    data = esan.data_set(dataset)
    config = published.with_features(load_config(data.config), esan.features(dataset), features)
    return Sweep(
        name=f"esan-ablation-{dataset}",
        config=config,
        grid={},
        variants=published.variants(esan.ABLATIONS),
        seeds=tuple(range(esan.SEEDS)),
        table=TableLayout(
            title=f"Ablation of ESAN on {data.title}",
            rows=("variant",),
            scores=data.scores[:1],
            published=esan.published_ablation(dataset, config),
            order={"variant": tuple(esan.ABLATIONS)},
            original={"variant": esan.ORIGINAL},
            notes=esan.setting_notes(config),
        ),
    )
