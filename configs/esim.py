"""ESIM (Chen et al., 2017), the sequential model.

    jaxmatch train configs/esim.py --dataset snli --data-directory DATA --vectors glove.840B.300d.zip \\
        --workdir runs/esim

Size, dropout, batch size and learning rate are the paper's (section 4). The paper also trains the word vectors; here
they stay as they are. Words are lower-cased, which they are not in the authors' code. The paper gives no decay, and the
authors' code halves the rate when the dev score is no better. Here it has the default decay (0.95 every 128,000 pairs,
down to 6e-5). Other data sets: `sweeps/comparison.py --models esim`. Runs that were trained here are in results/.
"""

from ml_collections import ConfigDict

from jaxmatch import default_config, with_overrides
from jaxmatch.config.settings import of_data_set

_PAPER = {
    "model.hidden_size": 300,
    "data.tokenizer": "word",
    "data.remove_punctuation": False,
    "training.batch_size": 32,
    "optimizer.learning_rate": 0.0004,
    "optimizer.dropout_rate": 0.5,
    "optimizer.gradient_clip": 10.0,  # the authors' code
}

DATA_SETS = {
    # 88.0 test accuracy in the paper (Table 1).
    "snli": _PAPER | {"training.patience_samples": 2_560_000},
    # Your own files: docs/how_to/own_data.md.
    "own": _PAPER | {"training.epochs": 20},
}


def get_config(dataset: str = "snli") -> ConfigDict:
    return with_overrides(default_config("esim"), of_data_set(DATA_SETS, dataset))
