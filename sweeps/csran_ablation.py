"""CSRAN's ablation, the paper's Table 8: without its attention refinement, its co-stack affinity, or both; five seeds
each, on dev and, for SNLI, test.

    jaxmatch sweep sweeps/csran_ablation.py --dataset scitail --data-directory DATA --vectors glove.840B.300d.zip \\
        --workdir runs/ablation

`--dataset`: snli, scitail or trecqa. All have three stacked layers, as in the paper. `--features none` leaves out the
words' characters. `--smoke` tries it in seconds, without data files.
"""

from jaxmatch import Sweep, TableLayout, load_config, with_overrides
from jaxmatch.papers import published
from jaxmatch.papers.esan_csran import csran


def get_sweep(dataset: str = "snli", features: str = published.PAPER) -> Sweep:
    data = csran.data_set(dataset, csran.ABLATION)
    config = with_overrides(load_config(data.config), {"model.stacked_layers": csran.ABLATION_LAYERS})
    config = published.with_features(config, csran.FEATURES, features)
    return Sweep(
        name=f"csran-ablation-{dataset}",
        config=config,
        grid={},
        variants=published.variants(csran.ABLATIONS),
        seeds=tuple(range(csran.SEEDS)),
        table=TableLayout(
            title=f"Ablation of CSRAN on {data.title}",
            rows=("variant",),
            scores=tuple(csran.rows("Table 8", dataset)[0].scores),
            published=csran.published_ablation(dataset, config),
            order={"variant": tuple(csran.ABLATIONS)},
            original={"variant": csran.ORIGINAL},
            notes=(*csran.setting_notes(config), csran.ALIGNED_NOTE),
        ),
    )
