"""The catalog: from names to files, and from files to data sets."""

import pytest
from reader_formats import TREC, fill
from refusals import refused

from jaxmatch.data import catalog
from jaxmatch.errors import InputError


@pytest.mark.parametrize(
    "name, task, labels, counts",
    [
        ("snli", "classification", ("entailment", "neutral", "contradiction"), (21605, 9842, 9824)),
        ("quora", "classification", ("0", "1"), (27391, 10000, 10000)),
        ("wikiqa", "ranking", ("0", "1"), (20360, 2733, 6165)),
        ("sick", "classification", ("entailment", "neutral", "contradiction"), (4500, 500, 4927)),
        ("sick_relatedness", "regression", (), (4500, 500, 4927)),
        ("multinli", "classification", ("entailment", "neutral", "contradiction"), (20000, 9815)),
        ("trecqa", "ranking", ("0", "1"), (4718, 1148, 1517)),
        ("trecqa_clean", "ranking", ("0", "1"), (4718, 1117, 1442)),
        ("twitter_url", "classification", ("0", "1"), (82, 10, 86)),
        ("mrpc", "classification", ("0", "1"), (3668, 408, 1725)),
        ("rte", "classification", ("not_entailment", "entailment"), (2490, 277)),
        ("stsb", "regression", (), (5749, 1500, 1379)),
    ],
)
def test_real_files_have_the_expected_task_labels_and_sizes(data_folder, name, task, labels, counts):
    data = catalog.load(name, data_folder)
    assert (data.name, data.task, data.labels) == (name, task, labels)
    # `zip` stops early: a corpus without labels for its test pairs has train and dev alone.
    assert {split: len(pairs) for split, pairs in data.splits.items()} == dict(zip(catalog.SPLITS, counts))
    dropped = {split: sum(pairs.dropped.values()) for split, pairs in data.splits.items() if pairs.dropped}
    assert dropped == {"trecqa_clean": {"dev": 31, "test": 75}, "twitter_url": {"train": 8, "test": 14}}.get(name, {})
    for pairs in data.splits.values():
        assert {len(pairs.text_a), len(pairs.text_b), len(pairs.labels)} == {len(pairs)}
        if labels:
            # Ten pairs of one headline are the dev split of the Twitter sample.
            assert set(pairs.labels) == set(labels) or (name, len(pairs)) == ("twitter_url", 10)


def scitail(folder, words):
    row = f"{words}\tb\tentails\n"
    return fill(folder, **{"scitail_1.0_train_tsv": row, "scitail_1.0_test_tsv": row})


@pytest.mark.parametrize("below", ["", "tsv_format", "SciTailV1.1/tsv_format"])
def test_files_are_found_in_the_data_directory_and_its_official_subfolders(tmp_path, below):
    scitail(tmp_path / below, "a")
    for directory in (tmp_path, str(tmp_path)):
        data = catalog.load("scitail", directory)
        assert data.splits["train"].text_a == ["a"] and list(data.splits) == ["train", "test"]
    found = catalog.find_files("scitail", tmp_path)
    assert found == {split: tmp_path / below / f"scitail_1.0_{split}.tsv" for split in ("train", "test")}


def test_splits_are_not_gathered_from_two_folders(tmp_path):
    fill(tmp_path / "SciTailV1.1/tsv_format", **{"scitail_1.0_train_tsv": "official\tb\tentails\n"})
    scitail(tmp_path, "stray")
    data = catalog.load("scitail", tmp_path)
    assert list(data.splits) == ["train"] and data.splits["train"].text_a == ["official"]


def test_a_missing_training_file_error_lists_file_names_and_folders(tmp_path):
    fill(tmp_path / "SciTailV1.1", **{"scitail_1.0_dev_tsv": "a\tb\tentails\n"})
    text = str(refused(catalog.load, "scitail", tmp_path))
    assert "no train file: looked for scitail_1.0_train.tsv in" in text
    assert text.startswith(f"{tmp_path}: ") and "in SciTailV1.1/tsv_format; put it there, or" in text
    assert "looked for train.tsv, train.csv," in str(refused(catalog.load, "own", tmp_path))
    with pytest.raises(InputError, match="no train file"):
        catalog.find_files("quora", tmp_path)


def test_missing_split_returns_an_error_that_names_the_split(tmp_path):
    error = catalog.missing_split("quora", tmp_path, "dev")
    assert "'quora' has no dev file: looked for dev.tsv in" in str(error) and error.path == tmp_path
    assert "no split 'valid'; its splits are train, dev, test" in str(catalog.missing_split("quora", tmp_path, "valid"))
    problem = "data set 'rte' has no split 'test'; the official test file has no labels"
    assert str(catalog.missing_split("rte", tmp_path, "test")) == problem


def test_dev_is_split_from_the_training_file_if_there_is_no_dev_file(tmp_path):
    def rows(first):
        return "".join(f"{first} {n}\tb\t(6,6)\thttps://t.co/x\n" for n in range(20)) + "x\ty\t(3,6)\tz\n"

    fill(tmp_path, Twitter_URL_Corpus_test_sample_txt=rows("test"))
    assert list(catalog.find_files("twitter_url", tmp_path)) == ["test"]
    assert "no train file" in str(refused(catalog.load, "twitter_url", tmp_path))
    fill(tmp_path, Twitter_URL_Corpus_train_txt=rows("train"))
    data = catalog.load("twitter_url", tmp_path)
    assert {split: len(pairs) for split, pairs in data.splits.items()} == {"train": 18, "dev": 2, "test": 20}
    assert {*data.splits["train"].text_a, *data.splits["dev"].text_a} == {f"train {n}" for n in range(20)}
    assert catalog.about("twitter_url")["dev"].startswith("a tenth of the official training file")
    # A split that is loaded separately is the same.
    assert {split: catalog.load_split("twitter_url", tmp_path, split) for split in data.splits} == data.splits


def test_clean_trecqa_filters_dev_but_not_train(tmp_path):
    fill(tmp_path, train_xml=TREC, dev_xml=TREC)
    raw, clean = (catalog.load(name, tmp_path) for name in ("trecqa", "trecqa_clean"))
    assert [len(raw.splits[split]) for split in ("train", "dev")] == [3, 3]
    assert [len(clean.splits[split]) for split in ("train", "dev")] == [3, 2]
    assert "looked for train-all.xml in" in str(refused(catalog.load, "trecqa_all", tmp_path))
    fill(tmp_path, **{"train-all_xml": TREC + TREC.replace("id='", "id='x")})
    assert len(catalog.load("trecqa_all_clean", tmp_path).splits["train"]) == 6
    assert [len(catalog.load_split("trecqa_clean", tmp_path, split)) for split in ("train", "dev")] == [3, 2]
    with pytest.raises(InputError, match="has no test file"):
        catalog.load_split("trecqa_clean", tmp_path, "test")


def test_a_directory_must_be_named_and_exist(tmp_path):
    for directory in (None, ""):
        assert "give the directory that holds snli_1.0" in str(refused(catalog.load, "snli", directory))
    assert "no train file" in str(refused(catalog.load, "snli", tmp_path / "nowhere"))


def test_an_unknown_name_error_suggests_the_nearest_name():
    for name, near in (("snil", "snli"), ("wiki_qa", "wikiqa"), ("embeded_ranking", "embedded_ranking")):
        assert f'did you mean "{near}"' in str(refused(catalog.load, name, None))


def test_a_task_that_does_not_fit_the_data_is_an_error(tmp_path):
    assert 'did you mean "regression"?' in str(refused(catalog.load, "own", tmp_path, task="regresion"))
    text = str(refused(catalog.load, "sick", tmp_path, task="regression"))
    assert "'sick' is a classification, not a regression" in text
    assert "is a ranking, not a classification" in str(refused(catalog.load, "embedded_ranking", task="classification"))
    scitail(tmp_path, "a")
    assert catalog.load("scitail", tmp_path, task="classification").task == "classification"
