"""The data sets that are read from their official files: paths and readers."""

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path

from jaxmatch.data import readers
from jaxmatch.data.pairs import Split, hold_out

SPLITS = ("train", "dev", "test")


@dataclasses.dataclass(frozen=True)
class Source:
    """A data set that can be read from its official files.

    Attributes:
      name: the name of the data set.
      task: "classification", "regression" or "ranking".
      labels: label names in the order of the model's outputs; empty for a regression.
      folder: the official folder, relative to the data directory.
      files: split -> candidate file names in that folder. The first file that exists is read. Empty if the official
        release has no such split.
      read: the function that reads the file of a split.
      selection: the score that chooses a checkpoint.
      read_split: split -> the function that reads it instead of `read`.
      about: split -> a description, if its name does not describe it, or the reason why it does not exist.
      filtered: whether only questions with right and wrong candidates count in the scores of a ranking; otherwise all
        questions with a right candidate count.
      companion_suffix: the suffix of a second file that each split's file needs in the same folder; empty if no second
        file is needed.
    """

    name: str
    task: str
    labels: tuple[str, ...]
    folder: str
    files: Mapping[str, tuple[str, ...]]
    read: Callable[[Path], Split]
    selection: str
    read_split: Mapping[str, Callable[[Path], Split]] = dataclasses.field(default_factory=dict)
    about: Mapping[str, str] = dataclasses.field(default_factory=dict)
    filtered: bool = True
    companion_suffix: str = ""


_HELD_OUT = "a tenth of the official training file, whose other pairs are train; there is no official dev file"
_TREC_FOLDER = "jacana-qa-naacl2013-data-results"


def _trecqa(name: str, train: str, *, clean: bool) -> Source:
    kept = "questions with right and wrong answers only"
    counted = "MAP and MRR over the questions with a right answer, those without a wrong one among them"
    return Source(
        name=name,
        task="ranking",
        labels=readers.BINARY,
        folder=_TREC_FOLDER,
        files={"train": (train,), "dev": ("dev.xml",), "test": ("test.xml",)},
        read=readers.read_trecqa_clean if clean else readers.read_trecqa,
        selection="map",
        # The clean sets differ in dev and test (Rao et al., 2016, Table 1). Training uses all questions.
        read_split={"train": readers.read_trecqa},
        about=dict.fromkeys(("dev", "test"), kept if clean else counted),
        filtered=clean,
    )


def _held_out(read: Callable[[Path], Split]) -> dict[str, Callable[[Path], Split]]:
    return {"train": lambda path: hold_out(read(path))[0], "dev": lambda path: hold_out(read(path))[1]}


_SICK_FILES = {"train": ("SICK_train.txt",), "dev": ("SICK_trial.txt",), "test": ("SICK_test_annotated.txt",)}

# The repository of the corpus holds samples of the files that its authors send on request.
_TWITTER_TRAIN = ("Twitter_URL_Corpus_train.txt", "Twitter_URL_Corpus_train_sample.txt")

CATALOG: dict[str, Source] = {
    "snli": Source(
        name="snli",
        task="classification",
        labels=readers.INFERENCE,
        folder="snli_1.0",
        files={split: (f"snli_1.0_{split}.jsonl", f"snli_1.0_{split}.txt") for split in SPLITS},
        read=readers.read_snli,
        selection="accuracy",
    ),
    "scitail": Source(
        name="scitail",
        task="classification",
        labels=readers.SCITAIL,
        folder="SciTailV1.1/tsv_format",
        files={split: (f"scitail_1.0_{split}.tsv",) for split in SPLITS},
        read=readers.read_scitail,
        selection="accuracy",
    ),
    "quora": Source(
        name="quora",
        task="classification",
        labels=readers.BINARY,
        folder="Quora_question_pair_partition",
        files={split: (f"{split}.tsv",) for split in SPLITS},
        read=readers.read_quora,
        selection="accuracy",
    ),
    "wikiqa": Source(
        name="wikiqa",
        task="ranking",
        labels=readers.BINARY,
        folder="WikiQACorpus",
        files={split: (f"WikiQA-{split}.txt",) for split in SPLITS},
        read=readers.read_wikiqa,
        selection="mrr",
        companion_suffix=readers.WIKIQA_COMPANION,
    ),
    "sick": Source(
        name="sick",
        task="classification",
        labels=readers.INFERENCE,
        folder="SICK",
        files=_SICK_FILES,
        read=readers.read_sick,
        selection="accuracy",
    ),
    "sick_relatedness": Source(
        name="sick_relatedness",
        task="regression",
        labels=(),
        folder="SICK",
        files=_SICK_FILES,
        read=readers.read_sick_relatedness,
        selection="pearson",
    ),
    "multinli": Source(
        name="multinli",
        task="classification",
        labels=readers.INFERENCE,
        folder="multinli_1.0",
        files={
            "train": ("multinli_1.0_train.jsonl", "multinli_1.0_train.txt"),
            "dev": ("multinli_1.0_dev_matched.jsonl", "multinli_1.0_dev_matched.txt"),
            "test": ("multinli_1.0_dev_mismatched.jsonl", "multinli_1.0_dev_mismatched.txt"),
        },
        read=readers.read_snli,
        selection="accuracy",
        about={
            "dev": "the matched development pairs",
            "test": "the mismatched development pairs; the labels of the official test pairs are not public",
        },
    ),
    "trecqa": _trecqa("trecqa", "train.xml", clean=False),
    "trecqa_clean": _trecqa("trecqa_clean", "train.xml", clean=True),
    "trecqa_all": _trecqa("trecqa_all", "train-all.xml", clean=False),
    "trecqa_all_clean": _trecqa("trecqa_all_clean", "train-all.xml", clean=True),
    "twitter_url": Source(
        name="twitter_url",
        task="classification",
        labels=readers.BINARY,
        folder="Twitter_URL_Corpus",
        files={
            "train": _TWITTER_TRAIN,
            "dev": _TWITTER_TRAIN,
            "test": ("Twitter_URL_Corpus_test.txt", "Twitter_URL_Corpus_test_sample.txt"),
        },
        read=readers.read_twitter_url,
        selection="max_f1",
        read_split=_held_out(readers.read_twitter_url),
        about={"dev": _HELD_OUT},
    ),
    "ubuntu": Source(
        name="ubuntu",
        task="ranking",
        labels=readers.BINARY,
        folder="ubuntu_data",
        files={"train": ("train.txt",), "dev": ("valid.txt",), "test": ("test.txt",)},
        read=readers.read_ubuntu,
        selection="recall_at_1",
        read_split={"train": readers.read_ubuntu_train},
    ),
    "mrpc": Source(
        name="mrpc",
        task="classification",
        labels=readers.BINARY,
        folder="MRPC",
        files={
            "train": ("msr_paraphrase_train.txt",),
            "dev": ("msr_paraphrase_train.txt",),
            "test": ("msr_paraphrase_test.txt",),
        },
        read=readers.read_mrpc,
        selection="accuracy",
        read_split=_held_out(readers.read_mrpc),
        about={"dev": _HELD_OUT},
    ),
    "rte": Source(
        name="rte",
        task="classification",
        labels=readers.RTE,
        folder="RTE",
        files={"train": ("train.tsv",), "dev": ("dev.tsv",), "test": ()},
        read=readers.read_rte,
        selection="accuracy",
        about={"test": "the official test file has no labels"},
    ),
    "stsb": Source(
        name="stsb",
        task="regression",
        labels=(),
        folder="stsbenchmark",
        files={split: (f"sts-{split}.csv",) for split in SPLITS},
        read=readers.read_stsb,
        selection="pearson",
    ),
}
