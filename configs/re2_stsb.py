"""RE2 on STS-B, similarity from 0 to 5 as a regression: squared error, chosen by Pearson's correlation; not in the paper.

    jaxmatch train configs/re2_stsb.py --data-directory DATA --vectors glove.840B.300d.zip --workdir runs/stsb

Run time and scores: not measured.
"""

from ml_collections import ConfigDict

from jaxmatch.settings import default_config, with_overrides


def get_config() -> ConfigDict:
    return with_overrides(
        default_config(),
        {
            "model.prediction": "symmetric",
            "data.name": "stsb",
            "training.batch_size": 64,
            "training.epochs": 20,
            "training.patience_samples": 57_000,
            "training.selection": "pearson",
            "training.maximum_buckets": 8,
            "optimizer.decay_rate": 1.0,
        },
    )
