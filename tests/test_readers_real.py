"""Readers on the official files."""

import codecs

from reader_formats import columns
from refusals import refused

from jaxmatch.data import readers


def test_real_wikiqa_groups_match_the_official_filtered_list(data_folder):
    split = readers.read_wikiqa(data_folder / "WikiQACorpus" / "WikiQA-test.txt")
    kinds = {}
    for group, label in zip(split.groups, split.labels):
        kinds.setdefault(group, set()).add(label)
    kept = [
        f"{group} 0 {document} {label}"
        for group, document, label in zip(split.groups, split.documents, split.labels)
        if len(kinds[group]) == 2
    ]
    # The release's own list of questions with right and wrong answers.
    assert len(kinds) == 633
    assert kept == (data_folder / "WikiQACorpus" / "WikiQA-test-filtered.ref").read_text().splitlines()


def test_real_sick_with_windows_line_ends_has_the_expected_labels(data_folder):
    path = data_folder / "SICK" / "SICK_test_annotated.txt"
    assert b"\r\n" in path.read_bytes()
    labels = readers.read_sick(path).labels
    assert [labels.count(name) for name in readers.INFERENCE] == [1414, 2793, 720]
    scores = readers.read_sick_relatedness(path).labels
    assert (min(scores), max(scores)) == (1.0, 5.0) and scores[:2] == [3.3, 3.7]


def test_real_quora_and_snli_have_the_expected_pairs(data_folder):
    first = columns(readers.read_quora(data_folder / "Quora_question_pair_partition" / "test.tsv"))[0]
    assert first == (
        "What should I do to avoid sleeping in class ?",
        "How do I not sleep in a boring class ?",
        "1",
    )
    split = readers.read_snli(data_folder / "snli_1.0" / "snli_1.0_dev.jsonl")
    assert columns(split)[1] == (
        "Two women are embracing while holding to go packages.",
        "Two woman are holding packages.",
        "entailment",
    )
    assert [split.labels.count(name) for name in readers.INFERENCE] == [3329, 3235, 3278]


def test_real_mrpc_rte_and_multinli_have_the_expected_label_counts(data_folder):
    for path, read, labels in (
        ("MRPC/msr_paraphrase_train.txt", readers.read_mrpc, [1323, 2753]),
        ("MRPC/msr_paraphrase_test.txt", readers.read_mrpc, [578, 1147]),
        ("RTE/train.tsv", readers.read_rte, [1241, 1249]),
        ("RTE/dev.tsv", readers.read_rte, [131, 146]),
        ("multinli_1.0/multinli_1.0_dev_matched.jsonl", readers.read_snli, [3479, 3123, 3213]),
    ):
        names = {
            readers.read_mrpc: readers.BINARY,
            readers.read_rte: readers.RTE,
            readers.read_snli: readers.INFERENCE,
        }[read]
        split = read(data_folder / path)
        assert [split.labels.count(name) for name in names] == labels


def test_real_mrpc_keeps_its_quotation_marks_but_not_the_byte_order_mark(data_folder):
    path = data_folder / "MRPC" / "msr_paraphrase_train.txt"
    assert path.read_bytes().startswith(codecs.BOM_UTF8) and b"\r\n" in path.read_bytes()
    assert columns(readers.read_mrpc(path))[0] == (
        'Amrozi accused his brother, whom he called "the witness", of deliberately distorting his evidence.',
        'Referring to him as only "the witness", Amrozi accused his brother of deliberately distorting his evidence.',
        "1",
    )


def test_real_rte_test_file_has_no_labels(data_folder):
    assert "the header has no column 'label'" in str(refused(readers.read_rte, data_folder / "RTE" / "test.tsv"))


def test_real_stsb_has_the_expected_scores_and_first_pair(data_folder):
    split = readers.read_stsb(data_folder / "stsbenchmark" / "sts-test.csv")
    assert (min(split.labels), max(split.labels)) == (0.0, 5.0) and split.labels[:2] == [2.5, 3.6]
    assert columns(split)[0] == ("A girl is styling her hair.", "A girl is brushing her hair.", 2.5)


def test_real_twitter_sample_has_the_expected_labels_and_dropped_pairs(data_folder):
    # Each sample has 100 lines. The test sample has 31 + 17 + 9 lines with 0 to 2 votes and 8 + 17 + 4 with 4 to 6.
    split = readers.read_twitter_url(data_folder / "Twitter_URL_Corpus" / "Twitter_URL_Corpus_test_sample.txt")
    assert [split.labels.count(name) for name in readers.BINARY] == [57, 29] and split.dropped == {"3 of 6 votes": 14}
