"""CAFE (Tay et al., 2018), the single-layer model that CSRAN stacks.

    jaxmatch train configs/cafe.py --dataset snli --data-directory DATA --vectors glove.840B.300d.zip \\
        --workdir runs/snli
    jaxmatch train configs/cafe_snli.py ...        # the same

Sizes of the LSTM, of the hidden layers and of the factorization machines are the released code's defaults. Those of
characters and parts of speech, the layers of the head, batch size, learning rate, decay, L2 penalty and clipped
gradient are those of the released code's CSRAN run (configs/csran.py). Two highway layers encode the words, as in
section 2.1 of CSRAN's paper; the released code has one by default. Its L2 penalty leaves out biases and is clipped with
the gradient; here it covers all parameters and is added after clipping. A word has its vector, its characters and its
part of speech, as in the authors' setting. Runs that were trained here are in results/.
"""

from ml_collections import ConfigDict

from jaxmatch import default_config, with_overrides
from jaxmatch.config.settings import of_data_set

_PAPER = {
    "model.hidden_size": 300,
    "model.highway_layers": 2,
    "model.head_size": 300,
    "model.characters": "bilstm",
    "model.tags": True,
    "data.tokenizer": "word",
    "data.minimum_count": 1,  # a word that the vocabulary lacks has no characters
    "data.remove_punctuation": False,  # as in the authors' code
    "training.batch_size": 128,
    "training.epochs": 20,
    "optimizer.learning_rate": 0.001,
    "optimizer.learning_rate_floor": 0.0,
    "optimizer.decay_rate": 0.96,
    "optimizer.l2_penalty": 1e-8,
    "optimizer.gradient_clip": 5.0,
}

DATA_SETS = {
    # 88.5 test accuracy in the paper; the authors' notes say 88.1 to 88.3 is easily reached.
    "snli": _PAPER
    | {
        "training.patience_samples": 0,
        "optimizer.decay_samples": 163_840,  # 1,280 steps
    },
    # Your own files: docs/how_to/own_data.md. Parts of speech need NLTK's data and are left out.
    "own": _PAPER | {"model.tags": False, "training.batch_size": 64},
}


def get_config(dataset: str = "snli") -> ConfigDict:
    return with_overrides(default_config("cafe"), of_data_set(DATA_SETS, dataset))
