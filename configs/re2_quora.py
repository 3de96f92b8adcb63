"""RE2 on Quora question pairs, the released settings (the paper reports 89.2 ± 0.2 test accuracy over 10 seeds, Table 3).

    jaxmatch train configs/re2_quora.py --data-directory DATA --vectors glove.840B.300d.zip --workdir runs/quora

The split of Wang et al. (2017) comes tokenised; NLTK's word tokeniser leaves such text as it is and also reads raw questions.
Punctuation is removed, as the paper says; the released code keeps it. Dev is scored after every epoch; the released run is
scored every 512,000 pairs, too, after 3,584,000 every 12,800, and is not stopped before 5,120,000 (`--setting released` of
sweeps/re2_main.py). Run time on an accelerator: not measured.
"""

from ml_collections import ConfigDict

from jaxmatch.settings import default_config, with_overrides


def get_config() -> ConfigDict:
    return with_overrides(
        default_config(),
        {
            "model.hidden_size": 200,
            "model.prediction": "symmetric",
            "data.name": "quora",
            "data.tokenizer": "word",
            "data.maximum_length": 100,
            "training.batch_size": 512,
            "training.patience_samples": 2_560_000,
            "optimizer.learning_rate": 0.0012,
            "optimizer.decay_samples": 256_000,
        },
    )
