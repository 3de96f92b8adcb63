"""RE2 on MultiNLI with the released settings for SNLI; not in the paper.

    jaxmatch train configs/re2_multinli.py --data-directory DATA --vectors glove.840B.300d.zip --workdir runs/multinli

A checkpoint is chosen on the matched development pairs, and scored once on the mismatched ones, which stand as the test split: the
labels of the official test pairs are not public. Without that file there is no test score. Run time and scores: not measured.
"""

from ml_collections import ConfigDict

from jaxmatch.settings import default_config, with_overrides


def get_config() -> ConfigDict:
    return with_overrides(
        default_config(),
        {
            "model.blocks": 3,
            "data.name": "multinli",
            "data.tokenizer": "word",
            "data.maximum_length": 100,
            "training.batch_size": 512,
            "training.patience_samples": 2_560_000,
            "training.selection": "accuracy",
            "optimizer.learning_rate": 0.002,
            "optimizer.learning_rate_floor": 0.0001,
            "optimizer.warmup_samples": 2_048_000,
            "optimizer.decay_rate": 0.94,
            "optimizer.decay_samples": 256_000,
        },
    )
