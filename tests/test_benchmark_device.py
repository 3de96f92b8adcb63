"""`python -m benchmarks.device`: arguments, time shares of the stages, and complete runs at a tiny size."""

import json
import subprocess
import sys

import pytest
from small_records import ABOUT_A_DEVICE

from benchmarks import fresh_process, reports
from benchmarks.device import __main__ as device
from benchmarks.device import pieces, stages, tables
from benchmarks.device.budget import Budget, Stage
from benchmarks.item import Settings
from benchmarks.items.dispatch import STEPS_AT_ONCE
from benchmarks.placeholders import with_placeholders


def test_code_of_an_unknown_commit_is_not_measured(tmp_path, monkeypatch, capsys):
    """Its results could not be distinguished from those of other code."""
    about = {"device": "1 x gpu", "platform": "gpu", "driver": "d", "versions": {"jax": "0.11"}}
    monkeypatch.setattr(fresh_process, "run", lambda *_, **__: about)
    monkeypatch.setattr(device.reports, "commit_of_code", str)
    assert device.main(["--results", str(tmp_path / "r"), "--workdir", str(tmp_path / "w")]) == 2
    assert "git does not know the commit of this code; give it: --commit COMMIT" in capsys.readouterr().err


def test_peer_problem_reports_a_pytorch_without_gpu(tmp_path):
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "network.py").touch()
    packages = tmp_path / "packages"
    for name in ("torch", "tqdm", "msgpack", "sklearn"):
        (packages / name).mkdir(parents=True)
        (packages / name / "__init__.py").touch()
    (packages / "torch" / "cuda.py").write_text("def is_available():\n    return False\n")
    (packages / "torch" / "__init__.py").write_text("from torch import cuda\n")
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH={packages} exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    settings = Settings("", "", str(tmp_path), str(python), rounds=1, quick=True, scratch=tmp_path)
    assert stages.peer_problem(settings, "cpu") == ""
    assert stages.peer_problem(settings, "gpu") == "AssertionError: its PyTorch sees no GPU"


def test_files_of_other_commands_are_no_results_of_a_benchmark(tmp_path):
    """`python -m benchmarks --tables` reads a folder that also holds the files of `make accelerators`."""
    (tmp_path / "cpu").mkdir()
    (tmp_path / "accelerators").mkdir()
    (tmp_path / "cpu" / "lstm.json").write_text('{"item": "lstm"}')
    (tmp_path / "accelerators" / "figures.json").write_text('{"h100 re2": {}}')
    assert reports.read_results(tmp_path) == {"cpu": {"lstm": {"item": "lstm"}}}


def test_the_command_names_no_folder_of_the_user():
    words = ["--quick", "--vectors", "/home/me/v.zip", "--peer=/home/me/peer", "wikiqa"]
    assert with_placeholders(words) == ["--quick", "--vectors", "VECTORS", "--peer=PEER", "wikiqa"]
    words = ["training", "--vectors=/home/me/v.zip", "--data-directory=/home/me/data"]
    shown = with_placeholders(words, {"--vectors": lambda file: file.name})
    assert shown == ["training", "--vectors=v.zip", "--data-directory=DATA"]


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["all"], 'no stage "all"'),
        (["--minutes", "0"], "--minutes must be"),
        (["--minutes", "nan"], "--minutes must be"),
    ],
)
def test_invalid_arguments_are_reported_in_one_line(words, what, capsys):
    assert device.main(words) == 2
    text = capsys.readouterr().err
    assert what in text and text.count("\n") == 1


@pytest.mark.parametrize("device_folder", ["", "1-x-gpu"])
def test_tiny_sizes_do_not_replace_results_of_full_size(tmp_path, monkeypatch, capsys, device_folder):
    """They are not stored beside full-size results either, neither in the folder of all results nor in a device's."""
    monkeypatch.setattr(fresh_process, "run", lambda *_, **__: pytest.fail("something was measured"))
    Stage(tmp_path / "1-x-gpu", "replicas", ABOUT_A_DEVICE).keep({"a": {}})
    before = {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}
    assert device.main(["--quick", "--results", str(tmp_path / device_folder), "compiled"]) == 2
    text = capsys.readouterr().err
    assert "has results of full size, which --quick would replace; leave out --results" in text
    assert text.count("\n") == 1
    assert {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()} == before


def test_tiny_sizes_may_replace_earlier_results_of_tiny_sizes(tmp_path, monkeypatch):
    about = {**ABOUT_A_DEVICE, "platform": "cpu"}
    monkeypatch.setattr(fresh_process, "run", lambda *_, **__: about)
    monkeypatch.setattr(device, "STAGES", {})
    Stage(tmp_path / "1-x-gpu", "replicas", {**ABOUT_A_DEVICE, "quick": True}).keep({"a": {"problem": "p"}})
    assert device.main(["--quick", "--results", str(tmp_path), "--workdir", str(tmp_path / "w")]) == 0


def test_a_cpu_is_refused_without_quick(tmp_path, monkeypatch, capsys):
    about = {**ABOUT_A_DEVICE, "platform": "cpu"}
    monkeypatch.setattr(fresh_process, "run", lambda *_, **__: about)
    assert device.main(["--results", str(tmp_path)]) == 2
    text = capsys.readouterr().err
    assert "no accelerator" in text and "--quick" in text and text.count("\n") == 1 and not any(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("error", "what"),
    [
        (subprocess.TimeoutExpired("about", 180), "not found a device in 180 s; see what nvidia-smi says"),
        (RuntimeError("about ended with 1:\nTraceback\nRuntimeError: no backend\n"), "RuntimeError: no backend"),
    ],
)
def test_failure_to_detect_a_device_is_reported_in_one_line(error, what, tmp_path, monkeypatch, capsys):
    def run(*_, **__):
        raise error

    monkeypatch.setattr(fresh_process, "run", run)
    assert device.main(["--results", str(tmp_path)]) == 2
    text = capsys.readouterr().err
    assert what in text and text.count("\n") == 1


def test_time_budget_is_shared_among_stages_and_leftover_time_is_reused(tmp_path, monkeypatch):
    started = []

    def stage_of(name):
        def measure(plan, stage):
            """A stage."""
            started.append((name, plan.budget.left_to_begin(), plan.budget.left()))

        return measure

    monkeypatch.setattr(fresh_process, "run", lambda *_, **__: {**ABOUT_A_DEVICE, "platform": "gpu"})
    table = {"a": (stage_of("a"), "", 9), "b": (stage_of("b"), "", 1), "c": (stage_of("c"), "", 0)}
    monkeypatch.setattr(device, "STAGES", table)
    assert device.main(["--results", str(tmp_path), "--minutes", "10"]) == 0
    assert [name for name, *_ in started] == ["a", "b", "a", "b", "c"]
    assert [left for _, *left in started] == [pytest.approx(left, abs=20) for left in ([540, 600], *4 * [[600, 600]])]
    # A single stage has all of the time.
    assert device.shares(["b"]) == {"b": 1.0} and device.shares(["c"]) == {}


@pytest.mark.parametrize("platform", ["gpu", "tpu"])
def test_xla_gpu_options_are_measured_on_gpus_only(tmp_path, monkeypatch, platform):
    requested = []
    monkeypatch.setattr(pieces, "measure", lambda stage, budget, module, cases, *_: requested.extend(cases.values()))
    settings = Settings("", "", "", "", rounds=1, quick=False, scratch=tmp_path)
    stages.compiled(stages.Plan(settings, tmp_path, Budget(60), platform), Stage(tmp_path, "compiled", {}))
    models = {spec["model"] for spec in requested}
    assert models == (
        {model for model, *_ in stages.CASES} if platform == "gpu" else {"re2", "csran", "esan", "cafe"}
    ) and models >= {"re2"}
    assert ("re2-triton" in models) == (platform == "gpu")


def test_importing_the_command_does_not_initialize_jax_backends():
    """A process in which JAX has initialized a GPU holds most of the memory of the GPU."""
    words = (
        "import benchmarks.device.__main__; from jax._src import xla_bridge; "
        "print(xla_bridge.backends_are_initialized())"
    )
    done = subprocess.run(
        [sys.executable, "-c", words],
        env=fresh_process.with_this_checkout(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "False\n"


def test_stages_without_their_inputs_are_skipped_and_reported(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(fresh_process, "run", lambda *_, **__: {**ABOUT_A_DEVICE, "platform": "gpu"})
    monkeypatch.setenv("JAXMATCH_DATA", "")
    assert device.main(["--results", str(tmp_path), "--peer", str(tmp_path), "replicas", "wikiqa"]) == 0
    text = capsys.readouterr().out
    assert "wikiqa: skipped: it needs --data-directory and --vectors" in text and "replicas: skipped: it needs" in text
    assert "without the public PyTorch RE2: --peer is no checkout" in text
    assert tables.NOT_RUN in (tmp_path / "README.md").read_text()


@pytest.fixture
def simpler_model(monkeypatch):
    simpler = {"model.alignment": "identity", "model.fusion": "simple", "model.prediction": "simple"}
    monkeypatch.setattr(stages, "SMALL_RE2", {**stages.SMALL_RE2, **simpler})


@pytest.mark.slow
def test_compiled_stage_stores_its_measurements_and_does_not_repeat_them(simpler_model, tmp_path):
    """The command writes the same files as on a device, and a second call measures nothing again."""
    words = ["--quick", "--workdir", str(tmp_path), "--minutes", "5", "compiled"]
    assert device.main(words) == 0
    (file,) = tmp_path.glob("results/*/compiled.json")
    kept = json.loads(file.read_text())
    assert file.parent.name == reports.folder_of(kept["device"]) and kept["command"].endswith("--minutes 5 compiled")
    (row,) = kept["found"].values()
    assert row["temporaries"] > 0 and row["kernels"] > 0 and row["moved"] > row["arguments"] / 100
    assert 0 < row["seconds_in_a_row"] and row["seconds"] > 0 and row["operations"] > 0
    if row["kind"] == "cpu":
        assert row["products"] == ["float32"]
        assert row["least_seconds"] is None and row["in_use"] is None
    assert f"| {1e3 * row['seconds']:.2f} |" in (tmp_path / "results" / "README.md").read_text()
    changed = file.stat().st_mtime_ns
    assert device.main(words) == 0 and file.stat().st_mtime_ns == changed


@pytest.mark.slow
def test_steps_are_dispatched_one_by_one_and_many_at_a_time(simpler_model, tmp_path):
    words = ["--quick", "--workdir", str(tmp_path), "--minutes", "5", "dispatched"]
    assert device.main(words) == 0
    (file,) = tmp_path.glob("results/*/dispatched.json")
    ((_, piece),) = json.loads(file.read_text())["found"].items()
    assert [row["count"] for row in piece["times"]] == [1, STEPS_AT_ONCE] and len(piece["lengths"]) == 2
    lengths = " and ".join(map(str, piece["lengths"]))
    for row in piece["times"]:
        assert 0 < row["seconds"] < row["compile_seconds"]
        line = f"| {lengths} | {row['count']} | {1e3 * row['seconds']:.3f} |"
        assert line in (tmp_path / "results" / "README.md").read_text()
