"""CSRAN, compared with the paper's Tables 2 (SNLI), 3 (SciTail), 4 (Quora), 5 (TwitterURL), 6 (TrecQA) and 7 (Ubuntu),
five seeds.

    jaxmatch sweep sweeps/csran_main.py --dataset scitail --data-directory DATA --vectors glove.840B.300d.zip \\
        --workdir runs/csran

`--dataset`: snli, scitail, quora, twitter_url, trecqa or ubuntu. `--features none` leaves out the words' characters,
which the paper encodes by a BiLSTM. All simple baselines but TF-IDF are below the runs; `--baselines all` adds TF-IDF,
which needs scikit-learn. `--smoke` tries it in seconds, without data files.
"""

from jaxmatch import Sweep, TableLayout, load_config
from jaxmatch.baselines import WITHOUT_EXTRAS
from jaxmatch.papers import published
from jaxmatch.papers.esan_csran import csran


def get_sweep(dataset: str = "snli", features: str = published.PAPER) -> Sweep:
    data = csran.data_set(dataset)
    config = published.with_features(load_config(data.config), csran.FEATURES, features)
    return Sweep(
        name=f"csran-main-{dataset}",
        config=config,
        grid={},
        seeds=tuple(range(csran.SEEDS)),
        baselines=WITHOUT_EXTRAS,
        table=TableLayout(
            title=f"CSRAN on {data.title}",
            rows=(),
            scores=data.scores,
            published=csran.published_main(dataset, config),
            notes=csran.setting_notes(config),
        ),
    )
