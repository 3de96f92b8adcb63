"""Configs and sweeps are found by name: in the current folder, in the installed package, in the source tree."""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import setuptools

from jaxmatch.cli.main import main
from jaxmatch.errors import InputError
from jaxmatch.sweep.files import CONFIGS, SWEEPS, configs, files, find, load_config, title

ROOT = Path(__file__).parent.parent


@pytest.fixture
def empty(tmp_path, monkeypatch):
    """An empty folder, which is the current folder."""
    folder = tmp_path / "empty"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def test_configs_and_sweeps_are_listed_by_name_and_have_titles(empty):
    for kind in (CONFIGS, SWEEPS):
        found = files(kind)
        assert sorted(found) == sorted(file.stem for file in (ROOT / kind).glob("*.py")) and len(found) >= 10
        for file in found.values():
            assert len(title(file)) > 10, file
    assert not set(files(CONFIGS)) & set(files(SWEEPS))
    assert configs()["re2"] == title(ROOT / "configs" / "re2.py")


def test_names_resolve_to_files_and_paths_stay_unchanged(empty):
    assert find("quickstart", (SWEEPS, CONFIGS)) == ROOT / "sweeps" / "quickstart.py"
    assert find("re2", (SWEEPS, CONFIGS)) == ROOT / "configs" / "re2.py"
    # A search for both kinds finds the sweep of this name first; a search for configs finds the config.
    assert find("re2_sick", (SWEEPS, CONFIGS)) == ROOT / "sweeps" / "re2_sick.py"
    assert load_config("re2_sick") == load_config("re2", dataset="sick")
    for path in ("missing.py", "sweeps/quickstart", "./quickstart.py"):
        assert find(path, (SWEEPS,)) == Path(path)
    with pytest.raises(
        InputError, match="no file and no config 'quickstart'; it is a sweep: jaxmatch sweep quickstart"
    ):
        find("quickstart", (CONFIGS,))
    with pytest.raises(InputError, match="no file and no sweep or config 'zzz'; jaxmatch configs lists the names"):
        find("zzz", (SWEEPS, CONFIGS))
    with pytest.raises(InputError, match="no file and no sweep or config 'quikstart'; did you mean \"quickstart\""):
        find("quikstart", (SWEEPS, CONFIGS))


def test_source_tree_paths_resolve_from_any_folder(empty):
    assert find("sweeps/quickstart.py", (SWEEPS, CONFIGS)) == ROOT / "sweeps" / "quickstart.py"
    assert (
        load_config("configs/re2_snli.py") == load_config("configs/re2.py", dataset="snli") == load_config("re2_snli")
    )
    # A path that the source tree does not have stays as it is.
    for path in ("configs/quickstart.py", "sweeps/re2.py", "sweeps/none.py", "x/configs/re2.py"):
        assert find(path, (SWEEPS, CONFIGS)) == Path(path)


def test_file_in_the_current_folder_takes_precedence(empty):
    (empty / "configs").mkdir()
    (empty / "configs" / "re2.py").write_text('"""Mine."""\n')
    (empty / "configs" / "mine.py").write_text('"""New."""\n')
    assert find("re2", (CONFIGS,)) == Path("configs/re2.py")
    assert find("re2_sick", (CONFIGS,)) == Path("configs/re2_sick.py")
    assert configs()["mine"] == "New." and configs()["re2"] == "Mine." and "esan" in configs()
    (empty / "quickstart").write_text("def get_sweep(): pass\n")
    assert find("quickstart", (SWEEPS,)) == Path("quickstart")
    (empty / "grid").mkdir()  # a folder is no sweep
    assert find("grid", (SWEEPS,)) == ROOT / "sweeps" / "grid.py"


def test_configs_command_lists_files_and_copies_without_overwriting(empty, capsys):
    assert main(["configs"]) == 0
    printed = capsys.readouterr().out
    assert "  quickstart " in printed and "  re2 " in printed and title(ROOT / "configs" / "re2.py") in printed
    assert main(["configs", "quickstart"]) == 0
    assert capsys.readouterr().out.strip() == str(ROOT / "sweeps" / "quickstart.py")
    assert main(["configs", "quickstart", "--copy"]) == 0
    assert (empty / "quickstart.py").read_text() == (ROOT / "sweeps" / "quickstart.py").read_text()
    (empty / "quickstart.py").write_text("mine")
    assert main(["configs", "quickstart", "--copy"]) == 2
    assert "quickstart.py: there is such a file already" in capsys.readouterr().err
    assert (empty / "quickstart.py").read_text() == "mine"
    assert main(["configs", "re2_snli", "--copy"]) == 0
    assert capsys.readouterr().out == "re2.py is written; run it with: jaxmatch train re2.py --dataset snli\n"
    assert load_config("re2.py", dataset="snli") == load_config("re2_snli")
    assert main(["configs", "zzz", "--copy"]) == 2


def test_an_installed_package_needs_no_source_tree(tmp_path, empty):
    """The test copies the package, and the launchers below it, to where setup.py installs them."""
    given = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(setuptools, "setup", given.update)
        patch.setattr(setuptools, "find_packages", lambda include: [])
        specification = importlib.util.spec_from_file_location("setup_file", ROOT / "setup.py")
        specification.loader.exec_module(importlib.util.module_from_spec(specification))
    assert sorted(given["packages"]) == sorted(given["package_dir"])
    site = tmp_path / "site"
    shutil.copytree(ROOT / "jaxmatch", site / "jaxmatch", ignore=shutil.ignore_patterns("__pycache__"))
    for package, folder in given["package_dir"].items():
        shutil.copytree(ROOT / folder, site.joinpath(*package.split(".")))
    program = (
        "import sys; from jaxmatch.cli.main import main; "
        "assert main(['configs']) == 0 and main(['table', 'x']) == 2; assert 'jax' not in sys.modules; "
        "assert main(['sweep', 'quickstart', '--dry-run', '--epochs', '1', '--seeds', '1']) == 0; "
        "import jaxmatch; print(jaxmatch.__file__)"
    )
    environment = {**os.environ, "PYTHONPATH": str(site)}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert str(site / "jaxmatch" / "__init__.py") in done.stdout and "4 runs" in done.stderr


def test_manifest_names_all_top_level_files_and_folders():
    """MANIFEST.in names every folder and file at the top; setuptools adds the package itself."""
    if not (ROOT / ".git").exists():
        pytest.skip("this is no repository")
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split(
        "\n"
    )
    top = {Path(name).parts[0] for name in listed if name}
    words = {word for line in (ROOT / "MANIFEST.in").read_text().splitlines() for word in line.split()}
    assert top - words == {"jaxmatch", "pyproject.toml", "setup.py", "MANIFEST.in"}


def test_short_options_change_settings_and_conflicts_are_errors(empty, capsys):
    words = ["sweep", "quickstart", "--dry-run", "--seeds", "1"]
    assert main([*words, "--epochs", "3", "--batch-size=64"]) == 0
    assert "x 3 epochs" in capsys.readouterr().err
    for other in ("--config.training.epochs=2", "--grid.training.epochs=1,2"):
        assert main([*words, "--epochs", "3", other]) == 2
        assert f"--epochs and {other.partition('=')[0]} are the same setting" in capsys.readouterr().err
    assert main([*words, "--learning-rate", "0.1"]) == 2
    assert "is an axis of this sweep's grid" in capsys.readouterr().err
    for option, setting in (("--vectors", "data.vectors"), ("--data-directory", "data.directory")):
        assert main([*words, option, "a", f"--config.{setting}=b"]) == 2
        assert f"{option} and --config.{setting} are the same setting" in capsys.readouterr().err
    assert main([*words, "--epochs", "many"]) == 2
    assert "training.epochs is 'many'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("sweep grid --datset sick", 'this file has no option --datset; did you mean "--dataset"?'),
        ("sweep grid --zzz 3", "this file has no option --zzz; known: --dataset"),
        ("train sweeps/quickstart.py", "sweeps/quickstart.py: it is a sweep; give it to jaxmatch sweep: "),
        ("tune grid --halvign", "--halvign has no value"),
        ("sweep grid --config.model.block=2", 'did you mean "model.blocks"?'),
        ("evaluate x --config.model.block=2", "evaluate takes no --config.model.block"),
        ("sweep sweeps/quikstart.py", 'sweeps/quikstart.py: there is no such file; did you mean "quickstart"?'),
        ("train re2_snil", "there is no setting for the data set 'snil'; did you mean \"snli\"?"),
    ],
)
def test_mistyped_words_are_errors_with_a_hint(words, message, empty, capsys):
    assert main(words.split()) == 2
    assert message in capsys.readouterr().err
