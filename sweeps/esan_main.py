"""ESAN, compared with the paper's Tables 1 (SNLI), 2 (Quora) and 3 (MultiNLI): its settings as far as it gives them,
five seeds.

    jaxmatch sweep sweeps/esan_main.py --dataset quora --data-directory DATA --vectors glove.840B.300d.zip \\
        --workdir runs/esan

`--dataset`: snli, quora or multinli. `--features none` leaves out the word features that the paper uses besides the
vector: characters, and for inference the part of speech, which needs NLTK's tagger, and exact match. All simple
baselines but TF-IDF are below the runs; `--baselines all` adds TF-IDF, which needs scikit-learn. `--smoke` tries it in
seconds.
"""

from jaxmatch import Sweep, TableLayout, load_config
from jaxmatch.baselines import WITHOUT_EXTRAS
from jaxmatch.papers import published
from jaxmatch.papers.esan_csran import esan


def get_sweep(dataset: str = "snli", features: str = published.PAPER) -> Sweep:
    data = esan.data_set(dataset)
    config = published.with_features(load_config(data.config), esan.features(dataset), features)
    return Sweep(
        name=f"esan-main-{dataset}",
        config=config,
        grid={},
        seeds=tuple(range(esan.SEEDS)),
        baselines=WITHOUT_EXTRAS,
        table=TableLayout(
            title=f"ESAN on {data.title}",
            rows=(),
            scores=data.scores,
            published=esan.published_main(dataset, config),
            notes=(*esan.setting_notes(config), *esan.notes.get(dataset, ())),
        ),
    )
