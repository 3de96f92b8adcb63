"""A pretrained cross-encoder in a local folder: its outputs, compared with transformers, and its row in a table.

Tests that need the extra `transformers` are skipped if it is not installed. The PyTorch wheel of the package index,
with its libraries for GPUs, is too large for the requirements of the tests.
"""

import sys
from types import SimpleNamespace

import numpy as np
import pytest
from small_records import record

from jaxmatch import baselines
from jaxmatch.baselines import CrossEncoder, check_cross_encoder, cross_encoder_fingerprint
from jaxmatch.config.settings import default_config, with_overrides
from jaxmatch.data import catalog, encoding
from jaxmatch.data.pairs import Split
from jaxmatch.errors import InputError
from jaxmatch.reporting.layout import TableLayout
from jaxmatch.reporting.records import read_baselines
from jaxmatch.reporting.table import make_table
from jaxmatch.sweep import launch
from jaxmatch.sweep.files import data_settings
from jaxmatch.sweep.sweep import Run, Sweep
from jaxmatch.workdir import Workdir

WORDS = ["the", "cat", "dog", "sleeps", "runs", "nobody", "is", "awake", "."]
PAIRS = [
    ("The cat sleeps.", "Nobody is awake.", "contradiction"),
    ("the dog runs", "the dog is awake and the dog runs and the cat sleeps", "entailment"),
    ("cat", "dog", "neutral"),
    ("nobody runs . the cat sleeps .", "the cat runs", "contradiction"),
]
LABELS = ["NEUTRAL", "Contradiction", "entailment"]  # another order and case than in the data


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A function that saves a tiny BERT with random weights and the given labels in the format of transformers."""
    transformers = pytest.importorskip("transformers", reason="the extra transformers is not installed")
    torch = pytest.importorskip("torch", reason="the extra transformers is not installed")

    def save(labels, kind="BertForSequenceClassification"):
        folder = tmp_path_factory.mktemp("encoders") / "tiny"
        folder.mkdir()
        vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
        numbers = {word: number for number, word in enumerate(vocabulary)}
        transformers.BertTokenizer(vocab=numbers).save_pretrained(folder)
        sizes = dict(hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8)
        names = dict(id2label=dict(enumerate(labels)), label2id={label: number for number, label in enumerate(labels)})
        config = transformers.BertConfig(
            vocab_size=len(vocabulary), max_position_embeddings=12, initializer_range=1.0, **sizes, **names
        )
        torch.manual_seed(0)
        getattr(transformers, kind)(config).save_pretrained(folder)
        return folder

    return save


def logits_one_by_one(folder, pairs):
    """Returns the logits <float64>[pairs, outputs] that transformers computes without padding."""
    import torch
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder).eval()
    with torch.no_grad():
        tokens = [tokenizer(*pair[:2], truncation=True, max_length=12, return_tensors="pt") for pair in pairs]
        return np.concatenate([model(**each).logits.numpy() for each in tokens])


def split_of(pairs):
    return Split(*map(list, zip(*pairs, strict=True)))


@pytest.fixture
def own(tmp_path):
    """A run with the pairs as own data, and its data as arrays and as text."""
    (tmp_path / "data").mkdir()
    for name in ("train", "dev", "test"):
        lines = ["text_a\ttext_b\tlabel", *("\t".join(pair) for pair in PAIRS)]
        (tmp_path / "data" / f"{name}.tsv").write_text("\n".join(lines) + "\n")
    overrides = {"data.name": "own", "data.directory": str(tmp_path / "data"), "data.vectors": "hashed"}
    config = with_overrides(default_config(), overrides)
    settings = data_settings(config)
    texts = catalog.load("own", settings.directory, task=settings.task, layout=settings.layout)
    return SimpleNamespace(run=Run(config, 0, {}), data=encoding.prepare(settings, tmp_path / "cache"), texts=texts)


def test_outputs_match_transformers_in_the_order_of_the_labels(saved):
    folder = saved(LABELS)
    labels = ("contradiction", "entailment", "neutral")
    model = CrossEncoder(folder, "classification", labels)
    expected = logits_one_by_one(folder, PAIRS)[:, [1, 2, 0]]
    np.testing.assert_allclose(model.outputs(split_of(PAIRS)), expected, atol=1e-5)
    assert model.parameters > 1000
    two = CrossEncoder(folder, "classification", ("entailment", "neutral"))  # the third label is not in the data
    np.testing.assert_allclose(two.outputs(split_of(PAIRS)), expected[:, 1:], atol=1e-5)


def test_a_single_output_is_a_score_or_the_logit_of_the_second_label(saved):
    folder = saved(["LABEL_0"])
    expected = logits_one_by_one(folder, PAIRS)
    scored = CrossEncoder(folder, "regression", ()).outputs(split_of(PAIRS))
    np.testing.assert_allclose(scored, expected, atol=1e-5)
    ranked = CrossEncoder(folder, "ranking", ("0", "1")).outputs(split_of(PAIRS))
    np.testing.assert_allclose(ranked, np.column_stack([np.zeros(4), expected]), atol=1e-5)
    with pytest.raises(InputError, match="its 1 outputs are LABEL_0, and the data needs the labels a, b"):
        CrossEncoder(folder, "classification", ("a", "b", "c"))


def test_incompatible_or_damaged_cross_encoders_are_errors(saved):
    with pytest.raises(InputError, match="NEUTRAL, Contradiction, entailment, and the data needs the labels 0, 1; "):
        CrossEncoder(saved(LABELS), "classification", ("0", "1"))
    with pytest.raises(InputError, match="its 3 outputs are .*, and the data needs one output"):
        CrossEncoder(saved(LABELS), "regression", ())
    with pytest.raises(InputError, match="it has no weights for classifier"):
        CrossEncoder(saved(LABELS, "BertModel"), "classification", ("neutral", "entailment"))
    damaged = saved(LABELS)
    (damaged / "model.safetensors").write_bytes(b"{}")
    with pytest.raises(InputError, match="transformers cannot load it"):
        CrossEncoder(damaged, "classification", ("neutral", "entailment"))


def test_check_usable_reports_missing_files_and_packages(monkeypatch, tmp_path):
    for package in ("transformers", "torch"):
        monkeypatch.setitem(sys.modules, package, SimpleNamespace(__spec__=SimpleNamespace()))
    with pytest.raises(InputError, match="the folder has no config.json or no "):
        check_cross_encoder(tmp_path)
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "pytorch_model.bin").write_bytes(b"")  # pickles are not read
    with pytest.raises(InputError, match="the folder has no config.json or no "):
        check_cross_encoder(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"")
    check_cross_encoder(tmp_path)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(InputError, match="needs torch, which is not installed; pip install 'jaxmatch"):
        check_cross_encoder(tmp_path)


class FakeEncoder:
    """A fake cross-encoder that predicts every label correctly."""

    parameters = 17
    loaded = 0

    def __init__(self, folder, task, labels):
        assert task == "classification"
        self._labels = labels
        type(self).loaded += 1

    def outputs(self, split):
        return np.array([[label == known for known in self._labels] for label in split.labels], float)


def test_the_row_of_a_cross_encoder_is_stored_and_computed_once(own, tmp_path, monkeypatch):
    monkeypatch.setattr(baselines, "check_cross_encoder", lambda folder: None)
    monkeypatch.setattr(baselines, "CrossEncoder", FakeEncoder)
    folder = tmp_path / "some-encoder"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    messages = []
    table = TableLayout("t", ("variant",), scores=("test.accuracy",))
    sweep = Sweep("s", own.run.config, table=table, baselines=("majority",), cross_encoder=str(folder))
    plan = SimpleNamespace(sweep=sweep, runs={"r": (own.run, SimpleNamespace(data=own.data))})
    work = Workdir(tmp_path / "w")
    work.path.mkdir()
    for _ in range(2):
        launch.keep_baselines(plan, work, SimpleNamespace(say=messages.append))
    assert FakeEncoder.loaded == 1 and len(messages) == 2 and messages[1] == f"scoring the cross-encoder {folder}"
    assert sweep.rows_without_runs == ("majority", "cross_encoder")
    baseline, pretrained = read_baselines(work.path)["rows"].values()
    assert pretrained.pretrained and not baseline.pretrained and pretrained.scores["test.accuracy"] == 1
    text = make_table([record(variant="RE2")], table, (baseline, pretrained)).markdown()
    assert "Baselines (majority class): fitted once" in text
    assert "Pretrained (cross-encoder some-encoder): not trained here" in text
    assert [line.split("|")[1].strip() for line in text.splitlines() if line.startswith("|")][2:] == [
        "RE2",
        "majority class",
        "cross-encoder some-encoder",
    ]
    # A changed file in the folder changes the fingerprint, so the cross-encoder is scored again.
    before = cross_encoder_fingerprint(folder)
    (folder / "config.json").write_text("{ }")
    assert cross_encoder_fingerprint(folder) != before
    launch.keep_baselines(plan, work, SimpleNamespace(say=messages.append))
    assert FakeEncoder.loaded == 2
