"""The settings of data, training, optimizer and execution."""

import dataclasses
from typing import Literal

from jaxmatch.config.fields import setting
from jaxmatch.config.scores import SCORES

# The settings of `DataConfig` for the layout of a user's own files. They decide which pairs are read.
OWN_LAYOUT = ("columns", "labels", "quoted", "split", "split_seed")


@dataclasses.dataclass(frozen=True)
class DataConfig:
    """The data set, and how text becomes ids."""

    name: str = setting("embedded_inference", "name of the data set; own: a folder of your own")
    directory: str = setting(
        "",
        "folder with the data files, or one file of your own; empty: the environment variable JAXMATCH_DATA, for "
        "public data sets only",
    )
    task: Literal["", "classification", "regression", "ranking"] = setting(
        "", "task of your own data; empty: from its columns"
    )
    columns: str = setting(
        "", "columns of your own data that have other names, like text_a=question1,text_b=question2,label=is_duplicate"
    )
    labels: str = setting("", "names of the labels in your own data, like 0=different,1=same; empty: as they are")
    quoted: bool = setting(False, "whether your own TSV encloses texts in quotation marks, as CSV does")
    split: str = setting(
        "", "shares of train, dev and test in one file of your own, like 0.8/0.1/0.1; empty: each has a file"
    )
    split_seed: int = setting(0, "seed of the split", least=0)
    vectors: str = setting(
        "",
        "file of word vectors, as text or in word2vec's binary format, also as .gz or .zip; a path, or below the data "
        "directory; hashed: vectors made from the spelling of words; none: for model.words=trained",
    )
    minimum_coverage: float = setting(
        0.1, "stop if a smaller share of all tokens has a vector in the file; 0: train anyway", least=0, most=1
    )
    tokenizer: Literal["word", "whitespace", "characters", "tweet", "tweet_split"] = setting(
        "word",
        "how texts are split: at spaces, or by NLTK's word or tweet tokenizer; `characters` splits Chinese, Japanese, "
        "Thai and other scripts without spaces into characters, and other text into words; `tweet_split` also splits "
        "at hyphens and clitics, as RE2's code does for SciTail",
    )
    lowercase: bool = setting(True, "convert text to lower case")
    remove_punctuation: bool = setting(True, "drop tokens that are punctuation alone")
    minimum_count: int = setting(5, "keep words without a vector that occur at least this often", least=0)
    maximum_length: int = setting(0, "maximum number of tokens in a text; 0: no limit, as in the paper", least=0)
    truncation_side: Literal["right", "left"] = setting("right", "side on which longer texts are cut")
    drop_from_length: int = setting(
        0, "leave out training pairs with a text of at least this many tokens; 0: none", least=0
    )


@dataclasses.dataclass(frozen=True)
class TrainingConfig:
    """How long a run trains, and when it is scored. Times are counted in pairs, whatever the batch size."""

    batch_size: int = setting(128, "number of pairs in a training step", least=1)
    epochs: int = setting(30, "maximum number of passes over the training set", least=1)
    evaluate_every_samples: int = setting(
        0, "number of pairs between two dev scores; 0: one after every epoch", least=0
    )
    evaluate_each_epoch: bool = setting(False, "with evaluate_every_samples: also score after every epoch")
    late_from_samples: int = setting(0, "number of pairs after which evaluate_every_samples_late applies", least=0)
    evaluate_every_samples_late: int = setting(
        0, "value of evaluate_every_samples after late_from_samples; 0: unchanged", least=0
    )
    patience_samples: int = setting(
        400_000, "stop a run after this many pairs without a better dev score; 0: never", least=0
    )
    minimum_samples: int = setting(0, "no early stopping before this many pairs", least=0)
    selection: str = setting(
        "",
        "dev score that chooses the checkpoint; empty: the data set's own, or that of the task of your own data",
        choices=SCORES,
    )
    best_on_test: bool = setting(False, "also record the best score on TEST, in a column of its own")
    maximum_buckets: int = setting(10, "maximum number of padded lengths; each makes compilation longer", least=1)
    mix_lengths: bool = setting(False, "draw batches from pairs of all lengths; otherwise pairs of similar length")


@dataclasses.dataclass(frozen=True)
class OptimizerConfig:
    """Adam and its schedule. All of these settings are traced: a grid over them compiles one program."""

    learning_rate: float = setting(1e-3, "learning rate of Adam, after warmup", least=0)
    learning_rate_floor: float = setting(6e-5, "learning rate at which warmup starts and decay ends", least=0)
    warmup_samples: int = setting(0, "number of pairs of linear warmup", least=0)
    decay_rate: float = setting(0.95, "factor by which the learning rate decays", least=0)
    decay_samples: int = setting(128_000, "number of pairs between two decays; 0: no decay", least=0)
    dropout_rate: float = setting(0.2, "rate of every dropout", least=0, most=0.999)
    weight_decay: float = setting(0.0, "L2 penalty, added to the clipped gradient before Adam", least=0)
    gradient_clip: float = setting(5.0, "maximum global norm of the gradient; 0: no limit", least=0)


@dataclasses.dataclass(frozen=True)
class ExecutionConfig:
    """How runs are executed. These settings do not change a run's name. They can change results in the last bits."""

    evaluation_batch_size: int = setting(
        0, "number of pairs predicted at once for scores; 0: 512, on a CPU 32", least=0
    )
    checkpoint_seconds: float = setting(60.0, "seconds between two checkpoints", least=0)
    maximum_replicas: int = setting(0, "maximum number of runs trained at once; 0: as many as fit in memory", least=0)
    cache_directory: str = setting(
        "", "folder of encoded data and compiled programs; empty: below the user's cache folder"
    )
