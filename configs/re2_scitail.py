"""RE2 on SciTail, the released settings (the paper reports 86.0 ± 0.6 test accuracy over 10 seeds, Table 2).

    jaxmatch train configs/re2_scitail.py --data-directory DATA --vectors glove.840B.300d.zip --workdir runs/scitail

Punctuation is removed, as the paper says; the released code keeps most of it. Dev is scored after every epoch, there every
6,400 pairs, too. Run time on an accelerator: not measured.
"""

from ml_collections import ConfigDict

from jaxmatch.settings import default_config, with_overrides


def get_config() -> ConfigDict:
    return with_overrides(
        default_config(),
        {
            "model.blocks": 2,
            "model.encoder_layers": 3,
            "model.hidden_size": 200,
            "model.alignment": "identity",
            "data.name": "scitail",
            "data.tokenizer": "tweet_split",
            "training.epochs": 80,
            "optimizer.decay_rate": 1.0,
        },
    )
