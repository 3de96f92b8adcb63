"""A small transformer encoder over both sentences, trained from scratch.

    jaxmatch train configs/transformer.py --dataset snli --data-directory DATA --vectors glove.840B.300d.zip \\
        --workdir runs/transformer

No paper has this setting. Layer normalization comes before each sublayer; an epoch of warmup, then RE2's decay. Other
data sets: `sweeps/comparison.py --models transformer`. Run time and score: not measured.
"""

from ml_collections import ConfigDict

from jaxmatch import default_config, with_overrides
from jaxmatch.settings import of_data_set

DATA_SETS = {
    "snli": {
        "data.tokenizer": "word",
        "data.remove_punctuation": False,
        "training.batch_size": 128,
        "training.patience_samples": 2_560_000,
        "optimizer.learning_rate": 0.0005,
        "optimizer.learning_rate_floor": 0.00001,
        "optimizer.warmup_samples": 549_367,  # an epoch
        "optimizer.decay_samples": 256_000,
    },
}


def get_config(dataset: str = "snli") -> ConfigDict:
    return with_overrides(default_config("transformer"), of_data_set(DATA_SETS, dataset))
