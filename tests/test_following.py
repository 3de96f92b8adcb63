"""Run listeners receive the contents of each run's record, also across interruptions."""

import pytest
import small_sweep

import jaxmatch
from jaxmatch.cli.main import main
from jaxmatch.sweep import launch


class Recorder(jaxmatch.RunListener):
    """A listener that stores everything it receives."""

    def __init__(self):
        self.curves, self.ends, self.runs = {}, {}, {}

    def started(self, run, curve):
        self.runs[run.name] = run
        self.curves[run.name] = [*curve]

    def evaluated(self, run, evaluation):
        self.curves[run.name].append(evaluation)

    def ended(self, run, record):
        self.ends[run.name] = record


class Failing(jaxmatch.RunListener):
    """A listener that raises an error at the n-th evaluation. `KeyboardInterrupt` interrupts training."""

    def __init__(self, error=KeyboardInterrupt, count=2):
        self.error, self.left = error, count

    def evaluated(self, run, evaluation):
        self.left -= 1
        if not self.left:
            raise self.error("the server is gone")


def train(files, workdir, *listeners, **overrides) -> dict:
    """Trains the small sweep with one seed of each learning rate, and returns its records."""
    planned = launch.resolve(files / "small.py", overrides=small_sweep.overrides(files) | overrides)
    jaxmatch.run(planned, workdir, small_sweep.Watcher(), listeners=listeners)
    return small_sweep.records(workdir)


def test_a_listener_receives_what_the_records_hold(small_files, tmp_path):
    received = Recorder()
    records = train(small_files, tmp_path / "out", received)
    assert received.curves.keys() == received.ends.keys() == records.keys() and len(records) == 2
    for name, record in records.items():
        assert received.ends[name] == record
        samples = [entry["samples"] for entry in received.curves[name]]
        assert samples == [entry["samples"] for entry in record["curve"]]
        assert samples or record["status"] == "diverged"
        run = received.runs[name]
        assert (run.seed, run.sweep, run.config) == (record["seed"], "small", record["config"])
        assert run.settings == record["overrides"] and run.folder == tmp_path / "out" / "runs" / name
    assert train(small_files, tmp_path / "out", again := Recorder()) == records and not again.curves


def test_a_resumed_run_gives_its_listener_each_point_once(small_files, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        train(small_files, tmp_path, received := Recorder(), Failing())
    assert received.ends and set(received.ends.values()) == {None}
    assert sorted(map(len, received.curves.values())) == [0, 2]
    records = train(small_files, tmp_path, again := Recorder())
    assert {run: len(curve) for run, curve in again.curves.items()} == {
        run: len(record["curve"]) for run, record in records.items()
    }


def test_a_failing_listener_is_not_called_again_and_training_continues(small_files, tmp_path):
    planned = launch.resolve(small_files / "small.py", overrides=small_sweep.overrides(small_files))
    received, watcher = Recorder(), small_sweep.Watcher()
    jaxmatch.run(planned, tmp_path / "out", watcher, listeners=[Failing(ConnectionError, 1), received])
    printed = [line for line in watcher.text.splitlines() if "Failing" in line]
    assert printed == ["Failing.evaluated failed (ConnectionError: the server is gone); Failing is not called again"]
    assert received.ends == small_sweep.records(tmp_path / "out")


LISTENERS = """
import jaxmatch
class Printing(jaxmatch.RunListener):
    def ended(self, run, record):
        print("ended", run.name)
class Broken(jaxmatch.RunListener):
    def __init__(self):
        raise OSError("no server")
class Other:
    def started(self, run, curve): pass
"""


def test_log_option_accepts_a_user_defined_listener(small_files, tmp_path, capsys, monkeypatch):
    (tmp_path / "followers.py").write_text(LISTENERS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    words = ("--log", "followers:Printing", "--log", f"{tmp_path}/followers.py:Printing")
    assert main(small_sweep.command(small_files, tmp_path / "out", *words)) == 0
    printed = [line for line in capsys.readouterr().out.splitlines() if line.startswith("ended")]
    assert sorted(printed) == sorted(2 * [f"ended {name}" for name in small_sweep.records(tmp_path / "out")])


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("wandb", "there is no log 'wandb'; give --log module:Class or file.py:Class"),
        ("nowhere:Class", "there is no module 'nowhere'"),
        ("followers.py:Broken", "no server"),
        ("followers.py:Other", "followers.py has no listener 'Other'; derive the class from jaxmatch.RunListener"),
    ],
)
def test_an_invalid_listener_is_reported_in_one_line(small_files, tmp_path, capsys, monkeypatch, name, message):
    (tmp_path / "followers.py").write_text(LISTENERS)
    monkeypatch.chdir(tmp_path)
    assert main(small_sweep.command(small_files, tmp_path / "out", "--log", name)) == 2
    printed = capsys.readouterr().err
    assert message in printed and printed.count("\n") == 1 and not (tmp_path / "out").exists()
