"""RE2 on SICK, relatedness from 1 to 5 as a regression: squared error, chosen by Pearson's correlation; not in the paper.

    jaxmatch train configs/re2_sick_relatedness.py --data-directory DATA --vectors glove.840B.300d.zip --workdir runs/relatedness

Run time and scores: not measured.
"""

from ml_collections import ConfigDict

from jaxmatch.settings import default_config, with_overrides


def get_config() -> ConfigDict:
    return with_overrides(
        default_config(),
        {
            "model.prediction": "symmetric",
            "data.name": "sick_relatedness",
            "training.batch_size": 64,
            "training.epochs": 20,
            "training.patience_samples": 45_000,
            "training.selection": "pearson",
            "training.maximum_buckets": 8,
            "optimizer.decay_rate": 1.0,
        },
    )
