"""The preparation benchmark: its generated text and vector file, its time per part, and a run at a tiny size."""

import json
import time
import zipfile
from collections import Counter

import numpy as np
import pytest

from benchmarks import generated_text, vector_file
from benchmarks.call_times import Watch, unattributed
from benchmarks.item import Settings
from benchmarks.items import ITEMS
from jaxmatch.data import catalog
from jaxmatch.data.vectors import read_vectors
from jaxmatch.errors import InputError

OFFICIAL_FIELDS = {
    "annotator_labels",
    "captionID",
    "gold_label",
    "pairID",
    "sentence1",
    "sentence1_binary_parse",
    "sentence1_parse",
    "sentence2",
    "sentence2_binary_parse",
    "sentence2_parse",
}
# Short sentences (few variants can be made of them), equal sentences, and tokens that are not words.
PAIRS = [
    ("A man sings.", "A woman dances!", "neutral"),
    ("A man sings.", "?", "entailment"),
    ("Two dogs don't run on 12 t-shirts", "Hi", "contradiction"),
    ("Hi", "Boys jumped over the older man's chairs.", "neutral"),
]


def settings(tmp_path, **changed) -> Settings:
    plain = dict(data_directory="", vectors="", peer="", peer_python="", rounds=1, quick=True, scratch=tmp_path)
    return Settings(**{**plain, **changed})


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("text")
    return folder, generated_text.write_snli(folder, PAIRS, {"train": 400, "dev": 50})


def test_generated_sentences_are_distinct_and_readable_by_the_snli_reader(written):
    data = catalog.load("snli", written[0])
    sentences = [
        sentence for split in data.splits.values() for side in (split.text_a, split.text_b) for sentence in side
    ]
    assert len(set(sentences)) == len(sentences) == 900
    assert list(data.splits["train"].labels) == [label for *_, label in PAIRS] * 100


def test_generated_lines_have_the_official_fields_and_the_reported_size(written):
    folder, sizes = written
    content = (folder / "snli_1.0" / "snli_1.0_train.jsonl").read_bytes()
    assert len(content) == sizes["train"]
    for line in content.splitlines():
        record = json.loads(line)
        assert set(record) == OFFICIAL_FIELDS
        assert record["sentence1_binary_parse"].replace("(", "").replace(")", "").split() == record["sentence1"].split()
        assert record["sentence1_parse"].count("(") == record["sentence1_parse"].count(")")


def test_the_same_seed_writes_the_same_bytes(written, tmp_path):
    content = (written[0] / "snli_1.0" / "snli_1.0_train.jsonl").read_bytes()
    for seed, same in ((0, True), (1, False)):
        generated_text.write_snli(tmp_path / str(seed), PAIRS, {"train": 400}, seed)
        assert ((tmp_path / str(seed) / "snli_1.0" / "snli_1.0_train.jsonl").read_bytes() == content) is same


def test_generated_words_and_their_frequencies_match_the_source():
    given = generated_text.pairs_of([catalog.load("embedded_inference").splits["train"]])
    exchange = generated_text.Exchange((sentence for a, b, _ in given for sentence in (a, b)), seed=0)
    before, after = Counter(), Counter()
    for a, b, _ in given:
        for sentence in (a, b):
            before.update(sentence.split())
            after.update(exchange.sentence(sentence).split())
    assert after.keys() <= before.keys()
    for word, count in before.most_common(20):
        assert after[word] / after.total() == pytest.approx(count / before.total(), rel=0.3)


def test_a_vector_file_has_its_size_and_the_wanted_words(tmp_path):
    words = [f"word{number}" for number in range(50)]
    plain, archive = vector_file.write(tmp_path, words, 10**6)
    assert 0 <= plain.stat().st_size - 10**6 < 4000  # at most one line more
    with zipfile.ZipFile(archive) as opened:
        assert opened.read(plain.name) == plain.read_bytes()
    found, report = read_vectors(plain, words)
    assert report.broken == 0 and report.dimensions == vector_file.DIMENSIONS
    assert report.kept == len(words) < report.lines
    assert len(np.unique(found.matrix, axis=0)) == len(words)


def test_time_of_a_nested_part_is_counted_once():
    class Work:
        def outer(self):
            time.sleep(0.02)
            return self.inner()

        def inner(self):
            time.sleep(0.05)
            return "done"

    watch = Watch()
    watch.on(Work, "outer", "out")
    watch.on(Work, "inner", "in")
    start = time.perf_counter()
    assert Work().outer() == "done"
    whole = time.perf_counter() - start
    assert watch.seconds["in"] >= 0.05
    assert 0.02 <= watch.seconds["out"] <= whole - 0.05
    assert 0 <= unattributed(whole, watch.seconds) < whole - 0.07 + 0.01


def test_preparation_without_a_data_directory_is_an_error(tmp_path):
    with pytest.raises(InputError, match="--data-directory"):
        ITEMS["preparation"].run(settings(tmp_path, quick=False))


@pytest.mark.slow
def test_a_quick_preparation_benchmark_runs_without_data(tmp_path):
    rows, notes = ITEMS["preparation"].run(settings(tmp_path))
    keys = {column.key for column in ITEMS["preparation"].columns}
    cold, warm, within, plain, packed = rows
    for row in rows:
        assert keys <= set(row) and row["seconds"]["median"] > 0
    assert cold["tokenise"] > 0 and cold["read"] > 0 and cold["write"] > 0
    assert warm["read"] == warm["tokenise"] == 0  # nothing was computed again
    assert within["seconds"]["median"] < warm["seconds"]["median"]
    assert plain["lines"] == packed["lines"] > plain["kept"] > 0
    assert "800 pairs" in notes[0]
    assert not list(tmp_path.iterdir())  # large files are removed
