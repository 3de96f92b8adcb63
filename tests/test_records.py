"""Records of runs: their contents, and the errors for damaged records."""

import json
import math
import os
import platform
import subprocess
from pathlib import Path
from types import SimpleNamespace

import jax
import pytest
import small_sweep

from jaxmatch.config.settings import SCORES, Score
from jaxmatch.devices import products_of
from jaxmatch.errors import InputError
from jaxmatch.reporting.records import REMEDY, best_record, read_record
from jaxmatch.reporting.table import identity
from jaxmatch.sweep import provenance
from jaxmatch.sweep.provenance import commit, device_name, make_record, versions
from jaxmatch.training.progress import RunProgress

CONFIG = SimpleNamespace(
    training=SimpleNamespace(selection="accuracy"), model=SimpleNamespace(precision="float32"), to_dict=dict
)
RUN = SimpleNamespace(config=CONFIG, identity=str, seed=0, variant="", overrides={})


@pytest.mark.slow
def test_every_run_leaves_a_complete_record(finished_sweep):
    workdir, _, watcher = finished_sweep
    records = small_sweep.records(workdir)  # strict: NaN and Infinity are not JSON
    assert set(records) == {run for runs in watcher.trained for run in runs}
    for run, record in records.items():
        assert read_record(workdir / "runs" / run / "record.json") == record
        assert (record["run"], record["sweep"], record["seed"], record["variant"]) == (run, "small", 0, "")
        assert record["config"]["optimizer"]["learning_rate"] == record["overrides"]["optimizer.learning_rate"]
        assert {split: record["data"][split] for split in small_sweep.PAIRS} == small_sweep.PAIRS
        assert record["parameters"] > 0
        assert record["times"]["replicas"] == 2
        shares = {"replicas", "train_seconds_a_run", "inference_microseconds_a_pair", "lockstep_steps", "replica_steps"}
        seconds = {f"{name}_seconds" for name in ("train", "evaluate", "compile", "checkpoint")}
        assert set(record["times"]) == seconds | shares
        assert 0 < record["times"]["inference_microseconds_a_pair"] < 1e6
        assert record["times"]["train_seconds_a_run"] == pytest.approx(record["times"]["train_seconds"] / 2, abs=1e-3)
        assert record["versions"] == versions()
        assert record["device"].startswith("1 x cpu")
        assert (record["times"]["lockstep_steps"], record["times"]["replica_steps"]) == (12, 24)


@pytest.mark.slow
def test_the_chosen_checkpoint_is_the_best_entry_of_the_curve(finished_sweep):
    record = next(each for each in small_sweep.records(finished_sweep[0]).values() if each["status"] == "finished")
    assert [entry["samples"] for entry in record["curve"]] == [64, 128, 192]
    assert [entry["epoch"] for entry in record["curve"]] == [1.0, 2.0, 3.0]
    best = max(record["curve"], key=lambda entry: entry["dev"]["accuracy"])  # the first of equals
    assert (record["selected_on"], record["selected_at_samples"]) == ("dev.accuracy", best["samples"])
    assert record["dev"] == best["dev"]
    assert all(math.isfinite(entry["train_loss"]) and entry["learning_rate"] > 0 for entry in record["curve"])
    assert set(record["test"]) == set(record["dev"])


@pytest.mark.slow
def test_a_diverged_run_has_no_scores_and_no_model(finished_sweep):
    workdir = finished_sweep[0]
    record = next(each for each in small_sweep.records(workdir).values() if each["status"] == "diverged")
    assert record["overrides"] == {"optimizer.learning_rate": small_sweep.DIVERGING}
    assert record["diverged_at_samples"] == 16  # the second step diverges on the parameters of the first
    assert (record["dev"], record["test"], record["curve"], record["selected_at_samples"]) == (None, None, [], None)
    assert not (workdir / "runs" / record["run"] / "model").exists()


def cohort(runs, train_seconds, *, pairs, seconds, **steps):
    totals = {"pairs": pairs, "seconds": seconds}
    times = {"seconds": {"train": train_seconds}, "steps": steps, "evaluator": SimpleNamespace(totals=totals)}
    return SimpleNamespace(runs=[None] * runs, origins=[], ran_out=[], **times)


def recorded(result, data, cohort):
    folder, devices = SimpleNamespace(name="c"), jax.devices()[:1]
    return make_record(RUN, result, sweep="s", folder=folder, data=data, cohort=cohort, devices=devices)


def test_a_record_describes_the_matched_and_mismatched_splits_of_multinli():
    result = SimpleNamespace(progress=RunProgress(), test=None, test_sampling=None, parameters={})

    def about(name, *splits):
        by_name = {split: SimpleNamespace(pairs=1) for split in splits}
        data = SimpleNamespace(
            name=name, fingerprint="f", splits=by_name, report={}, files={split: "sha" for split in splits}
        )
        made = recorded(result, data, cohort(1, 1.5, pairs=0, seconds=0.0, lockstep=3))
        assert made["times"]["train_seconds_a_run"] == 1.5 and made["times"]["inference_microseconds_a_pair"] is None
        assert made["products"] == products_of("float32", jax.devices()[0])
        assert (made["times"]["lockstep_steps"], made["status"], made["dropped"]) == (3, "finished", None)
        assert "test_sampling" not in made
        assert made["data"]["files"] == dict.fromkeys(splits, "sha")
        return made["data"]["about"]

    assert about("sick", "train", "dev", "test") == about("own", "train", "dev") == about("rte", "train", "dev") == {}
    assert about("multinli", "train", "dev") == {"dev": "the matched development pairs"}
    assert about("multinli", "train", "dev", "test")["test"].startswith("the mismatched development pairs")


def test_inference_time_is_in_microseconds_per_pair():
    report, splits = {"in_train": {"test": 3}}, {"train": SimpleNamespace(pairs=1)}
    data = SimpleNamespace(name="own", fingerprint="f", splits=splits, report=report, files={})
    sampling = {"questions": 2, "deviations": {"map": 0.5}}
    result = SimpleNamespace(progress=RunProgress(), test=None, test_sampling=sampling, parameters={})
    made = recorded(result, data, cohort(4, 6.0, pairs=400, seconds=0.5))
    assert made["test_sampling"] == sampling and made["data"]["in_train"] == {"test": 3}
    times = made["times"]["inference_microseconds_a_pair"], made["times"]["train_seconds_a_run"]
    assert times == (1250.0, 1.5)  # half a second / 400 pairs


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "the record is damaged"),
        (b'{"format": 1', "the record is damaged"),
        (b"[]", "not a record of format 1"),
        (b'{"format": 99}', "not a record of format 1"),
        (b"\xff\xfe\x00{", "the record is damaged"),
        (b"[" * 100_000, "the record is damaged"),
    ],
)
def test_a_damaged_record_is_one_line_with_its_path(tmp_path, content, problem):
    file = tmp_path / "record.json"
    file.write_bytes(content)
    with pytest.raises(InputError, match=problem) as caught:
        read_record(file)
    assert str(file) in str(caught.value)
    assert "\n" not in str(caught.value)


DAMAGED_FIELDS = [
    ({"test": {"accuracy": "high"}}, "could not convert string to float: 'high'"),
    ({"curve": [{"samples": 1}]}, "'dev'"),
    *(({field: ...}, f"there is no {field}") for field in ("run", "data", "curve")),
]


@pytest.mark.parametrize(("damage", "problem"), DAMAGED_FIELDS, ids=str)
def test_a_damaged_or_missing_field_is_an_error_with_the_path_of_the_record(tmp_path, damage, problem):
    kept = next((Path(__file__).parent.parent / "results" / "quickstart" / "runs").glob("*/record.json"))
    record = json.loads(kept.read_text()) | damage
    file = tmp_path / "record.json"
    file.write_text(json.dumps({field: value for field, value in record.items() if value is not ...}))
    with pytest.raises(InputError) as caught:
        read_record(file)
    assert str(caught.value).startswith(f"{file}: the record is damaged ({problem}")
    assert str(caught.value).endswith(f"; {REMEDY}")


def test_a_record_chosen_by_an_unknown_score_is_not_called_damaged(tmp_path):
    kept = next((Path(__file__).parent.parent / "results" / "quickstart" / "runs").glob("*/record.json"))
    file = tmp_path / "record.json"
    file.write_text(json.dumps(json.loads(kept.read_text()) | {"selected_on": "dev.luck"}))
    with pytest.raises(InputError, match="json: there is no score 'luck'; .*; --import FILE loads one of your own"):
        read_record(file)


def test_undefined_numbers_and_added_scores_are_valid(tmp_path, monkeypatch):
    kept = next((Path(__file__).parent.parent / "results" / "snli" / "runs").glob("*/record.json"))
    monkeypatch.setitem(SCORES, "spread", Score("spread", "spread"))
    record = json.loads(kept.read_text()) | {"selected_on": "dev.spread"}
    record["curve"][0] |= {"train_loss": None, "dev": {"mrr": math.nan}}
    (tmp_path / "record.json").write_text(json.dumps(record))
    assert read_record(tmp_path / "record.json")["curve"][0]["train_loss"] is None


def test_changed_and_new_files_mark_a_commit_where_they_count(tmp_path, monkeypatch):
    for name in ("jaxmatch/__init__.py", "benchmarks/a/b.py"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).touch()
    for words in (["init", "-q"], ["add", "."], ["-c", "user.name=n", "-c", "user.email=e", "commit", "-qm", "m"]):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    monkeypatch.setattr(provenance.jaxmatch, "__file__", str(tmp_path / "jaxmatch" / "__init__.py"))
    (tmp_path / "benchmarks" / "a" / "b.py").write_text("changed")
    of = commit.__wrapped__  # without the cache
    unchanged = of()
    assert len(unchanged) == 40 and of("benchmarks/*.py") == f"{unchanged}+"
    subprocess.run(["git", "config", "status.showUntrackedFiles", "no"], cwd=tmp_path, check=True)
    (tmp_path / "jaxmatch" / "new.py").touch()
    assert of() == f"{unchanged}+"


@pytest.mark.parametrize(
    ("processors", "name"),
    [
        ("model name\t: AMD EPYC\nflags\t: avx avx2\n\nmodel name\t: other\nflags\t: avx512f", "AMD EPYC, AVX2, "),
        ("model name\t: AMD EPYC\nflags\t\t: avx2 avx512f avx512dq\n", "AMD EPYC, AVX-512, "),
        ("processor\t: 0\nFeatures\t: fp asimd\n", f"{platform.processor() or platform.machine()}, "),
        (None, f"{platform.processor() or platform.machine()}, "),
    ],
)
def test_cpu_is_named_with_its_widest_vector_instructions(tmp_path, monkeypatch, processors, name):
    """Virtual machines often name no more than the family of their processor."""
    monkeypatch.setattr(provenance, "PROCESSORS", tmp_path / "cpuinfo")
    if processors is not None:
        (tmp_path / "cpuinfo").write_text(processors)
    assert device_name(jax.devices()[:1]) == f"1 x cpu ({name}{os.cpu_count()} cores)"


def test_equal_settings_have_one_identity_however_json_stores_them():
    assert identity(2) == identity(2.0) != identity(2.5)
    assert identity([3, 5.0]) == identity((3, 5))
    assert identity(1) != identity(True)


def test_the_best_run_is_chosen_on_dev():
    def one(run, accuracy, status="finished", selected_on="dev.accuracy"):
        dev = None if accuracy is None else {"accuracy": accuracy, "loss": accuracy}
        scores = {"selected_on": selected_on, "dev": dev, "test": {"accuracy": 1 - (accuracy or 0)}}
        return {"run": run, "status": status, "data": {"name": "sick"}, "config": {}, **scores}

    records = [one("a", 0.6), one("b", 0.8), one("c", 0.8), one("d", 0.9, "diverged"), one("e", None)]
    assert best_record(records)["run"] == "b"
    assert best_record([one("a", 0.6, selected_on="dev.loss"), one("b", 0.2, selected_on="dev.loss")])["run"] == "b"
    assert best_record([one("d", 0.9, "diverged"), one("e", None)]) is None
    with pytest.raises(InputError, match="the runs differ in scores: dev.accuracy, dev.loss"):
        best_record([one("a", 0.6), one("b", 0.2, selected_on="dev.loss")])
