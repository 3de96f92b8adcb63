"""A small complete file in each format, and helpers that the tests of the readers share."""

import pytest
from hypothesis import HealthCheck, settings

from jaxmatch.data import own, readers

quick = settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def write(folder, name, content):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def fill(folder, **files):
    """Writes files into a folder: `train_tsv="..."` becomes train.tsv."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / ".".join(name.rsplit("_", 1))).write_text(content)
    return folder


def columns(split):
    return list(zip(split.text_a, split.text_b, split.labels))


SNLI_JSON = (
    '{"gold_label": "neutral", "sentence1": "A dog.", "sentence2": "An animal.", "annotator_labels": ["neutral"]}\n'
    '{"gold_label": "-", "sentence1": "A dog.", "sentence2": "A cat.", "pairID": "1"}\n'
    '{"gold_label": "entailment", "sentence1": "A \\"big\\" dog.", "sentence2": "A dog."}\n'
)
SICK = (
    "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment\n"
    "1\tA dog.\tAn animal.\t4.5\tENTAILMENT\n"
    "2\tA dog.\tNo dog.\t3\tCONTRADICTION\n"
)
MRPC = (
    "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n"
    '1\t702\t703\tHe said "so.\tSo, he said.\n'
    "0\t704\t705\tIt fell.\tIt rose.\n"
)
RTE = (
    "index\tsentence1\tsentence2\tlabel\n"
    "0\tRain fell.\tIt rained.\tentailment\n"
    "1\tRain fell.\tIt snowed.\tnot_entailment\n"
)
STSB = (
    "main-captions\tMSRvid\t2012test\t0001\t5.000\tA plane rises.\tAn air plane rises.\n"
    'main-news\theadlines\t2013\t7\t0\tSo "he said\tNo.\tsource a\tsource b\n'
)
TREC_FIRST = (
    "<QApairs id='1.4'>\n<question>\nWho\tis\tit\t?\nWP\tVBZ\tPRP\t.\n1\t2\t3\t4\n</question>\n"
    "<positive>\nHugo\t&\tYoung\t.\nNNP\tCC\tNNP\t.\nHugo\tYoung\t\n1\t3\t\n</positive>\n"
    "<negative>\n<num>\tof\t< b >\nCD\tIN\tNN\n</negative>\n</QApairs>\n"
)
TREC = TREC_FIRST + (
    "<QApairs id='1.5'>\n<question>\nWhy\t?\n</question>\n</QApairs>\n"
    "<QApairs id='2'>\n<question>\nWhere\t?\nWRB\t.\n</question>\n<negative>\nHere\t.\n</negative>\n</QApairs>\n"
)
UBUNTU_CONTEXT = "hi all __eou__ my disk is full __eou__ __eot__ how big ? __eou__ __eot__"
UBUNTU = "".join(f"{int(not number)}\t{UBUNTU_CONTEXT}\tanswer {number}\n" for number in range(10))
OWN = "text_a\ttext_b\tlabel\tgroup\nwho ?\tme .\t1\tq1\nwho ?\tyou .\t0\tq1\n"
# A reader, the name of its file, and a complete file of two or three pairs.
FORMATS = {
    "snli": (readers.read_snli, "snli_1.0_dev.jsonl", SNLI_JSON),
    "scitail": (
        readers.read_scitail,
        "scitail_1.0_dev.tsv",
        "Rain falls.\tRain is water.\tentails\nA b.\tC d.\tneutral\n",
    ),
    "quora": (readers.read_quora, "dev.tsv", 'Why "so ?\tHow ?\t7\n'.join(["1\t", "0\t", ""])),
    "wikiqa": (readers.read_wikiqa, "WikiQA-dev.txt", "who ?\tme .\t1\nwho ?\tyou .\t0\nwhy ?\tso .\t0\n"),
    "sick": (readers.read_sick, "SICK_trial.txt", SICK),
    "sick_relatedness": (readers.read_sick_relatedness, "SICK_trial.txt", SICK),
    "mrpc": (readers.read_mrpc, "msr_paraphrase_train.txt", MRPC),
    "rte": (readers.read_rte, "dev.tsv", RTE),
    "stsb": (readers.read_stsb, "sts-dev.csv", STSB),
    "twitter_url": (
        readers.read_twitter_url,
        "Twitter_URL_Corpus_test.txt",
        "Rain ! \tit rains \t(4,6)\thttps://t.co/a\nRain ! \tsun \t(3,6)\thttps://t.co/a\nSo .\tno\t(2,6)\thttps://t.co/b\n",
    ),
    "trecqa": (readers.read_trecqa, "dev.xml", TREC),
    "ubuntu": (readers.read_ubuntu, "valid.txt", UBUNTU),
    "own tsv": (lambda path: own.read(path, "ranking"), "dev.tsv", OWN),
    "own jsonl": (
        lambda path: own.read(path, "regression"),
        "dev.jsonl",
        '{"text_a": "a", "text_b": "b", "label": 2.5}\n{"text_a": "c", "text_b": "d", "label": "-1e1"}\n',
    ),
}


def placed(folder, name, change=lambda content: content):
    """Writes the complete file of a format after `change`. WikiQA's companion file is not changed."""
    read, file_name, content = FORMATS[name]
    write(folder, "WikiQA-dev.ref", "q1 0 d1 1\nq1 0 d2 0\nq2 0 d1 0\n")
    return read, write(folder, file_name, change(content.encode()))


every_format = pytest.mark.parametrize("name", FORMATS)
