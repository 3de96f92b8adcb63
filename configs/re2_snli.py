"""RE2 on SNLI, the released settings (3 blocks; the paper reports 88.9 ± 0.1 test accuracy over 10 seeds, Table 1).

    jaxmatch train configs/re2_snli.py --data-directory DATA --vectors glove.840B.300d.zip --workdir runs/snli

The released code reads a preprocessed file that is no longer distributed; here the official text is split by NLTK's word
tokeniser, lower-cased, and tokens that are pure punctuation are dropped. Dev is scored after every epoch; the released run is
scored every 512,000 pairs, too, after 5,120,000 every 12,800, and is not stopped before (`--setting released` of sweeps/re2_main.py).
Run time on an accelerator: not measured.
"""

from ml_collections import ConfigDict

from jaxmatch.settings import default_config, with_overrides


def get_config() -> ConfigDict:
    return with_overrides(
        default_config(),
        {
            "model.blocks": 3,
            "data.name": "snli",
            "data.tokenizer": "word",
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
