"""A small transformer encoder over both sentences, trained from scratch.

    jaxmatch train configs/transformer.py --dataset snli --data-directory DATA --vectors glove.840B.300d.zip \\
        --workdir runs/transformer

No paper has this setting. Layer normalization comes before each sublayer. On SNLI, WikiQA, TrecQA and SICK the learning
rate has an epoch of warmup, then, on SNLI, a decay of 0.95 every 256,000 pairs. Own data has no warmup, because its
size is not known. Other data sets, without a warmup of their own: `sweeps/comparison.py --models transformer`. Runs
that were trained here are in results/.
"""

from ml_collections import ConfigDict

from jaxmatch import default_config, with_overrides
from jaxmatch.config.settings import of_data_set

_SETTING = {
    "data.tokenizer": "word",
    "data.remove_punctuation": False,
    "training.batch_size": 128,
    "optimizer.learning_rate": 0.0005,
    "optimizer.learning_rate_floor": 0.00001,
}
_CONSTANT = _SETTING | {"optimizer.decay_rate": 1.0}
_ANSWERS = _CONSTANT | {"data.tokenizer": "whitespace"}

DATA_SETS = {
    "snli": _SETTING
    | {
        "training.patience_samples": 2_560_000,
        "optimizer.warmup_samples": 549_367,
        "optimizer.decay_samples": 256_000,
    },
    "wikiqa": _ANSWERS | {"training.patience_samples": 256_000, "optimizer.warmup_samples": 20_360},
    "trecqa_clean": _ANSWERS | {"optimizer.warmup_samples": 4_718},
    "sick": _CONSTANT
    | {
        "training.batch_size": 64,
        "training.epochs": 20,
        "training.maximum_buckets": 8,
        "training.patience_samples": 45_000,
        "optimizer.warmup_samples": 4_500,
    },
    # Your own files: docs/how_to/own_data.md.
    "own": _CONSTANT | {"training.batch_size": 64, "training.epochs": 20},
}


def get_config(dataset: str = "snli") -> ConfigDict:
    return with_overrides(default_config("transformer"), of_data_set(DATA_SETS, dataset))
