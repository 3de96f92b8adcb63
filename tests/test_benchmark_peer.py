"""Comparison with a fake checkout of the public PyTorch RE2, as released and with batches sorted by length."""

import sys
import time
from pathlib import Path

import pytest
from fake_peer import checkout, settings_with_peer

from benchmarks import __main__ as command
from benchmarks import peer as peer_module
from benchmarks import reports, stopwatch
from benchmarks.items import ITEMS, inference, matching, paper, replicas, training
from benchmarks.peer import Peer, PeerEnded
from jaxmatch.errors import InputError


@pytest.fixture
def settings(tmp_path):
    return settings_with_peer(tmp_path)


@pytest.fixture
def peer(tmp_path):
    """A fake peer whose model is built on ten pairs with 1 to 10 tokens per sentence, in batches of two."""
    folder = tmp_path / "data"
    folder.mkdir()
    for name in ("train", "test"):
        lines = [f"{'a ' * length}\t{'b ' * length}\tyes\n" for length in (1, 10, 2, 9, 3, 8, 4, 7, 5, 6)]
        (folder / f"{name}.txt").write_text("".join(lines))
    with Peer(checkout(tmp_path / "peer"), sys.executable) as started:
        started.build({"batch_size": 2}, str(folder))
        started.folder = folder
        yield started


def test_sorted_batches_have_less_padding(peer):
    mixed, by_length = (peer.request("train", steps=5, sort_by_len=one) for one in (False, True))
    # The batches (1, 2), (3, 4) ... (9, 10): 2 x (2 + 4 + 6 + 8 + 10) x 2 tokens for ten pairs.
    assert by_length["epoch_tokens"] == 12
    assert by_length["tokens"] == 120 and by_length["pairs"] == mixed["pairs"] == 10
    assert mixed["epoch_tokens"] * 10 == mixed["tokens"]
    # Sorted and mixed batches each keep their own position in the epoch.
    first = peer.request("train", steps=2, sort_by_len=True)["tokens"]
    peer.request("train", steps=4, sort_by_len=False)
    assert first + peer.request("train", steps=3, sort_by_len=True)["tokens"] == 120


def test_texts_request_uses_the_given_batch_size_and_order(peer):
    file = str(peer.folder / "test.txt")
    cases = {"mixed": (2, False), "by length": (2, True), "one batch": (10, True)}
    answers = {
        name: peer.request("texts", file=file, batch_size=size, sort_by_len=by_length)
        for name, (size, by_length) in cases.items()
    }
    assert all(answer["pairs"] == 10 for answer in answers.values())
    # The fake sleeps for each batch and token: five batches take longer than one, mixed ones longer than sorted ones.
    assert answers["mixed"]["seconds"] > answers["one batch"]["seconds"]
    assert answers["by length"]["seconds"] > 5 * 0.062


def test_peer_process_inherits_the_huge_page_setting(monkeypatch, tmp_path):
    monkeypatch.setenv("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1")
    with Peer(checkout(tmp_path), sys.executable) as started:
        assert started.about["torch"] == "fake, glibc.malloc.hugetlb=1"


@pytest.mark.parametrize(("ours", "tf32"), [("float32", False), ("TF32", True), ("bfloat16", False)])
def test_peer_uses_our_precision_of_matrix_products(monkeypatch, tmp_path, ours, tf32):
    """By default PyTorch uses TF32 in convolutions alone."""
    monkeypatch.setattr(peer_module.ceiling, "default_products", lambda: ours)
    with Peer(checkout(tmp_path), sys.executable) as started:
        assert started.build({})["tf32"] == [tf32, tf32]
        assert started.name.endswith("products in TF32" if tf32 else "products in float32")


def test_verdict_reports_a_goal_as_met_or_missed():
    assert stopwatch.verdict("≥ 3", True) == "≥ 3: met"
    assert stopwatch.verdict("≥ 3", False) == "≥ 3: missed"
    assert stopwatch.verdict("≥ 3", None) == "≥ 3"


def test_goals_of_the_replicas_item_on_an_accelerator(monkeypatch):
    monkeypatch.setattr(replicas.jax, "default_backend", lambda: "gpu")
    measured = {key: {"median": value} for key, value in (("sorted", 9.0), ("peer", 90.0), ("share", 0.36))}
    assert replicas.goals(10, 512, measured) == "sorted peer ≥ 10: missed; ceiling ≥ 35%: met"
    assert replicas.goals(10, 512, measured, "TF32") == replicas.goals(10, 512, measured)
    assert replicas.goals(10, 512, measured, "bfloat16") == "ceiling ≥ 35%: met"  # the peer is not measured
    assert replicas.goals(10, 128, {"ratio": {"median": 0.19}}) == "a run ≤ 0.20: met"
    assert replicas.goals(10, 128, {}) == "a run ≤ 0.20"
    assert replicas.goals(2, 64, measured) == ""


def test_rows_of_float32_and_bfloat16_models_have_different_names_on_a_tpu():
    assert replicas.name_of_products("float32", "bfloat16") == "bfloat16, of float32 values"
    assert replicas.name_of_products("bfloat16", "bfloat16") == "bfloat16"
    assert replicas.name_of_products("float32", "TF32") == "TF32"


def test_goal_values_of_training_matching_and_inference():
    assert training.GOALS == {512: 2.5, 64: 2.0}
    assert (matching.GOAL, inference.PEER_GOAL) == (3.0, 0.35)


def test_nine_rounds_by_default(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["benchmarks", "--help"])
    with pytest.raises(SystemExit):
        command.main()
    assert "how many times each case is timed; default: 9\n" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["training", "matching", "replicas", "paper"])
def test_both_peers_are_columns(name):
    keys = {column.key for column in ITEMS[name].columns}
    assert {"peer", "sorted"} <= keys


def test_headings_of_hours_contain_estimated():
    hours = [column.heading for column in paper.ITEM.columns if column.heading.endswith(" h")]
    assert len(hours) == 6 and all("estimated" in heading for heading in hours)


def test_markdown_report_shows_load_and_huge_pages():
    result = {"title": "T.", "device": "1 x cpu", "versions": {"jax": "0.10"}, "commit": "", "rows": [], "notes": []}
    result |= {"command": "python", "load_before": 0.25, "huge_pages": False}
    assert "load before the run 0.25; huge pages for none." in reports.markdown(result, training.ITEM)
    assert "huge pages for all." in reports.markdown({**result, "huge_pages": True}, training.ITEM)


def check(row, goal):
    """Checks that, with one round, ratios are those of the medians, and that the verdict is about the sorted peer."""
    for key, ratio in (("peer", "ratio"), ("sorted", "sorted_ratio")):
        assert row[ratio]["median"] == pytest.approx(row["ours"]["median"] / row[key]["median"])
    met = row["sorted_ratio"]["median"] >= goal
    assert row["verdict"] == f"≥ {goal}: {'met' if met else 'missed'}"


@pytest.mark.slow
@pytest.mark.parametrize("goal", [1e-9, 1e9])
def test_training_is_compared_with_released_and_sorted_peer(settings, goal, monkeypatch):
    monkeypatch.setattr(training, "GOALS", {8: goal})
    (row,), notes = training.run(settings)
    check(row, goal)
    assert row["sorted"]["median"] > row["peer"]["median"]
    assert any("sort_by_len" in note for note in notes)


@pytest.mark.slow
def test_matching_is_compared_with_the_best_batch_size_of_each_peer(settings, few_pairs, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (row,), notes = matching.run(settings)
    check(row, matching.GOAL)
    assert (row["peer_batch"], row["sorted_batch"]) == (64, 64)
    assert sum("with batches of 512" in note and "with batches of 32" in note for note in notes) == 2


@pytest.mark.slow
def test_inference_goals_are_reported_for_ours_and_plain(settings, monkeypatch):
    monkeypatch.setattr(inference, "BLOCKS", (1,))
    monkeypatch.setattr(inference, "PEER_GOAL", 0.0)
    (row,), notes = inference.run(settings)
    assert row["goals"] == "ours ≤ 0.0: missed; computed ≤ 0.0: missed; plain ≤ 0.0: missed"
    assert any("one length" in note for note in notes)


@pytest.mark.slow
@pytest.mark.parametrize("often", [6.0, 0.0], ids=["in turn", "by itself"])
def test_many_runs_are_compared_with_released_and_sorted_peer(settings, often, monkeypatch):
    monkeypatch.setattr(replicas, "LONG_STEP_SECONDS", often)
    rows, _ = replicas.run(settings)
    assert all(row["peer"]["median"] > row["sorted"]["median"] > 0 for row in rows)
    assert rows[0]["goal"] == "" and rows[1]["goal"].startswith("a run ≤ 1.05: m")


@pytest.mark.slow
def test_our_measurements_are_kept_when_the_peer_process_ends(tmp_path, settings):
    model = tmp_path / "peer" / "src" / "model.py"
    model.write_text(model.read_text().replace("time.sleep(2e-5 * self.tokens(batch))", "raise SystemExit(1)"))
    rows, notes = replicas.run(settings)
    assert [set(row) >= {"pairs", "ratio", "share"} and "peer" not in row for row in rows] == [True] * 3
    assert "The peer's process ended at batch 16: from there on the rows are without it." in notes


def test_module_that_the_peer_lacks_is_reported_at_its_start(tmp_path, capfd):
    model = Path(checkout(tmp_path)) / "src" / "model.py"
    model.write_text("import no_such_module\n" + model.read_text())
    with pytest.raises(PeerEnded, match="must name a Python with torch"):
        Peer(str(tmp_path), sys.executable)
    assert capfd.readouterr().err == f"{sys.executable} has no module no_such_module\n"


def test_peer_without_a_gpu_is_refused_where_jax_has_one(tmp_path, monkeypatch):
    monkeypatch.setattr(peer_module.jax, "default_backend", lambda: "gpu")
    with pytest.raises(InputError, match="the peer's PyTorch sees no GPU"):
        Peer(checkout(tmp_path), sys.executable)


def test_python_of_the_peer_that_cannot_be_started_is_named(tmp_path):
    with pytest.raises(InputError, match="no-python: --peer-python cannot be started"):
        Peer(checkout(tmp_path), str(tmp_path / "no-python"))


def test_request_to_an_ended_peer_raises_peer_ended(tmp_path):
    with Peer(checkout(tmp_path), sys.executable) as started:
        for seconds in (0.0, 1.0):  # while the process ends, and after it has ended
            time.sleep(seconds)
            with pytest.raises(PeerEnded):
                started.request("no such command")


@pytest.mark.slow
def test_paper_item_estimates_total_hours_of_both_peers(settings):
    rows, notes = paper.run(settings)
    total = rows[-1]
    assert total["peer"] > total["sorted"] > 0
    assert total["sorted_ratio"] == pytest.approx(total["sorted"] / total["total"])
    assert any("as released: " in note and "sorted: " in note for note in notes)
