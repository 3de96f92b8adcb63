"""RE2 on TrecQA, raw: TRAIN and all dev and test questions, with the released settings for WikiQA; not in the paper.

    jaxmatch train configs/re2_trecqa.py --data-directory DATA --vectors glove.840B.300d.zip --workdir runs/trecqa

MAP and MRR count all questions with a right answer, also those that have no wrong one and cannot be ranked badly. Run time and scores: not measured.
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
            "data.name": "trecqa",
            "data.tokenizer": "whitespace",
            "training.selection": "map",
            "optimizer.decay_rate": 1.0,
        },
    )
