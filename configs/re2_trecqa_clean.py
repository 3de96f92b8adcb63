"""RE2 on TrecQA, clean: TRAIN, and dev and test questions with right and wrong answers; not in the paper.

    jaxmatch train configs/re2_trecqa_clean.py --data-directory DATA --vectors glove.840B.300d.zip --workdir runs/trecqa_clean

The released settings for WikiQA. Run time and scores: not measured.
"""

from ml_collections import ConfigDict

from jaxmatch.settings import default_config, with_overrides


def get_config() -> ConfigDict:
    return with_overrides(
        default_config(),
        {
            "model.encoder_layers": 3,
            "model.hidden_size": 200,
            "model.prediction": "simple",
            "data.name": "trecqa_clean",
            "data.tokenizer": "whitespace",
            "training.selection": "map",
            "optimizer.decay_rate": 1.0,
        },
    )
