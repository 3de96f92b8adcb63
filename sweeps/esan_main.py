"""ESAN, compared with the paper's Tables 1 (SNLI), 2 (Quora) and 3 (MultiNLI): its settings as far as it gives them,
five seeds.

    jaxmatch sweep sweeps/esan_main.py --dataset quora --data-directory DATA --vectors glove.840B.300d.zip \\
        --workdir runs/esan

`--dataset`: snli, quora or multinli. `--features none` leaves out the word features that the paper uses besides the
vector: characters, and for inference the part of speech, which needs NLTK's tagger, and exact match. `--floors`: simple
baselines below the runs, any of majority, overlap, cosine and tfidf, or all or none; by default all but tfidf, which
needs scikit-learn. `--smoke` tries it in seconds.
"""

from jaxmatch import Sweep, TableLayout, load_config
from jaxmatch.baselines.floors import WITHOUT_EXTRAS, named_floors
from jaxmatch.papers import data_sets, esan


def get_sweep(dataset: str = "snli", features: str = data_sets.PAPER, floors: str = WITHOUT_EXTRAS) -> Sweep:
    data = esan.data_set(dataset)
    config = data_sets.with_features(load_config(data.config), esan.features(dataset), features)
    return Sweep(
        name=f"esan-main-{dataset}",
        config=config,
        grid={},
        seeds=tuple(range(esan.SEEDS)),
        floors=named_floors(floors),
        table=TableLayout(
            title=f"ESAN on {data.title}",
            rows=(),
            scores=data.scores,
            published=esan.published_main(dataset, config),
            notes=esan.NOTES.get(dataset, ()),
        ),
    )
