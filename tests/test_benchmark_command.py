"""The command `python -m benchmarks`: items that fail, wrong input, and interrupts."""

import sys

import pytest

from benchmarks import __main__ as command
from benchmarks import reports
from benchmarks.item import Column, Item
from jaxmatch.errors import InputError


def item(error=None):
    def run(settings):
        if error:
            raise error
        return [{"value": 1}], []

    return Item(title="A title.", needs=(), columns=(Column("value", "value", "d"),), run=run)


@pytest.fixture
def start(monkeypatch, tmp_path):
    """A function that runs the command with other items than its own, and returns its exit status."""

    def run(items, *words):
        monkeypatch.setattr(command, "ITEMS", items)
        monkeypatch.setattr(sys, "argv", ["benchmarks", *words, "--results", str(tmp_path)])
        return command.main()

    return run


def measured(folder):
    return sorted(file.stem for file in folder.glob("*/*.json"))


@pytest.mark.parametrize("error", [RuntimeError("no memory"), FileNotFoundError("no such program")])
def test_the_other_items_are_measured_if_one_fails(start, tmp_path, capsys, error):
    assert start({"bad": item(error), "good": item()}) == 1
    assert measured(tmp_path) == ["good"] and "A title." in (tmp_path / "README.md").read_text()
    assert capsys.readouterr().err == f"benchmarks: bad: {type(error).__name__}: {error}\n"


def test_wrong_input_for_a_named_item_is_the_exit_status_and_else_leaves_the_item_out(start, tmp_path):
    items = {"bad": item(InputError("no such file")), "good": item()}
    assert start(items) == 0
    assert start(items, "bad", "good") == 2
    assert measured(tmp_path) == ["good"]


def test_an_interrupt_keeps_what_was_measured_and_its_tables(start, tmp_path, capsys):
    assert start({"good": item(), "long": item(KeyboardInterrupt()), "last": item()}) == 130
    assert measured(tmp_path) == ["good"] and (tmp_path / "README.md").exists()
    assert "interrupted in long" in capsys.readouterr().err


def test_rounds_are_at_least_one(start, capsys):
    with pytest.raises(SystemExit) as exit_status:
        start({"good": item()}, "--rounds", "0")
    assert exit_status.value.code == 2 and "--rounds" in capsys.readouterr().err


@pytest.mark.parametrize("content", ["{", "[]"])
def test_a_damaged_result_is_reported_in_one_line(start, tmp_path, capsys, content):
    assert start({"good": item()}) == 0
    (file,) = tmp_path.glob("*/good.json")
    file.write_text(content)
    capsys.readouterr()
    assert start({"good": item()}, "--tables") == 2
    text = capsys.readouterr().err
    assert text.startswith(f"benchmarks: {file}: the file is damaged") and text.count("\n") == 1


def test_a_result_that_cannot_be_stored_is_printed(start, tmp_path, capsys, monkeypatch):
    def write(*_):
        raise PermissionError("no place")

    monkeypatch.setattr(reports, "write_result", write)
    assert start({"good": item()}) == 1
    printed = capsys.readouterr()
    assert "| 1 |" in printed.out and printed.err == "benchmarks: good: PermissionError: no place\n"
