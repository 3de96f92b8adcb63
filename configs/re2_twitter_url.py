"""RE2 on Twitter-URL with the released model settings for Quora, chosen by F1; not in the paper.

    jaxmatch train configs/re2_twitter_url.py --data-directory DATA --vectors glove.840B.300d.zip --workdir runs/twitter_url

Pairs with 3 of 6 votes are left out. There is no official dev file: a fixed tenth of the training headlines is dev. Run time and
scores: not measured.
"""

from ml_collections import ConfigDict

from jaxmatch.settings import default_config, with_overrides


def get_config() -> ConfigDict:
    return with_overrides(
        default_config(),
        {
            "model.hidden_size": 200,
            "model.prediction": "symmetric",
            "data.name": "twitter_url",
            "data.tokenizer": "word",
            "training.selection": "f1",
            "optimizer.decay_rate": 1.0,
        },
    )
