"""`jaxmatch data fetch`, against a server on this machine."""

import hashlib
import http.server
import io
import json
import re
import tarfile
import threading
import zipfile

import pytest

from jaxmatch.cli.main import main
from jaxmatch.data import catalog
from jaxmatch.data.fetch import releases

RTE = "index\tsentence1\tsentence2\tlabel\n0\tA man sleeps.\tA man rests.\tentailment\n1\tA.\tB.\tnot_entailment\n"


def zipped(files):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return content.getvalue()


ARCHIVE = zipped({"RTE/train.tsv": RTE, "RTE/dev.tsv": RTE, "__MACOSX/RTE/._train.tsv": "x"})


class Handler(http.server.BaseHTTPRequestHandler):
    """Serves `files` of the server, counts the requests, and disconnects after `cut` bytes."""

    def log_message(self, *_):
        pass

    def do_GET(self):
        self.server.requests += 1
        content = self.server.files.get(self.path)
        if content is None:
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[: self.server.cut])


@pytest.fixture
def server():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.files, server.requests, server.cut = {"/RTE.zip": ARCHIVE}, 0, None
        server.address = f"http://127.0.0.1:{server.server_port}"
        server.handle_error = lambda *_: None
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def fetch(folder, *words, accept=True):
    return main(["data", "fetch", *words, "--data-directory", str(folder), *(["--accept-licenses"] if accept else [])])


def visible(folder):
    return sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))


def error_line(capsys, status):
    """Checks the exit status and returns the one line of the error."""
    assert status == 2
    (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("jaxmatch: ")]
    return line


def test_fetched_archive_is_unpacked_to_the_official_folder(server, tmp_path, capsys):
    assert fetch(tmp_path, "rte", "--from", server.address) == 0
    printed = capsys.readouterr()
    assert str(tmp_path / "RTE") in printed.out and "license" in printed.err
    assert visible(tmp_path) == ["RTE", "fetched.json"]
    assert visible(tmp_path / "RTE") == ["dev.tsv", "train.tsv"]
    assert len(catalog.load("rte", tmp_path).splits["train"].labels) == 2
    entry = json.loads((tmp_path / "fetched.json").read_text())["RTE.zip"]
    assert entry["sha256"] == hashlib.sha256(ARCHIVE).hexdigest() and entry["address"] == f"{server.address}/RTE.zip"
    # Existing data is not fetched again, and its license is not shown.
    assert fetch(tmp_path, "rte", "--from", server.address, accept=False) == 0
    assert server.requests == 1


def test_an_interrupted_download_leaves_nothing(server, tmp_path, capsys):
    server.cut = 100
    assert "could not be fetched" in error_line(capsys, fetch(tmp_path, "rte", "--from", server.address))
    assert not list(tmp_path.iterdir())


def test_a_wrong_checksum_is_refused_and_nothing_kept(server, tmp_path, capsys):
    server.files["/snli_1.0.zip"] = zipped({"snli_1.0/snli_1.0_train.jsonl": "{}"})
    line = error_line(capsys, fetch(tmp_path, "snli", "--from", server.address))
    assert "checksum" in line and releases()["snli"].files[0]["checksum"] in line
    assert visible(tmp_path) == []
    # A file without an official checksum must have the recorded one when it is fetched again.
    assert fetch(tmp_path, "rte", "--from", server.address) == 0
    (tmp_path / "RTE").rename(tmp_path / "elsewhere")
    server.files["/RTE.zip"] = zipped({"RTE/train.tsv": RTE})
    capsys.readouterr()
    assert "checksum" in error_line(capsys, fetch(tmp_path, "rte", "--from", server.address))
    assert visible(tmp_path) == ["elsewhere", "fetched.json"]


def test_word_vector_archive_is_kept_compressed_and_found(tmp_path):
    mirror, data = tmp_path / "mirror", tmp_path / "data"
    mirror.mkdir()
    vectors = zipped({"glove.840B.300d.txt": "the " + " ".join(["0.5"] * 300) + "\n"})
    (mirror / "glove.840B.300d.zip").write_bytes(vectors)
    assert fetch(data, "glove.840B", "--from", str(mirror)) == 0
    assert (data / "glove.840B.300d.zip").read_bytes() == vectors
    assert catalog.vectors_file("glove.840B.300d.zip", str(data)) == str(data / "glove.840B.300d.zip")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"no archive", "damaged"),
        (ARCHIVE[:-40], "damaged"),
        (zipped({"RTE/readme.txt": "x"}), "not the official release"),
    ],
)
def test_invalid_archive_is_refused_and_nothing_is_kept(server, tmp_path, capsys, content, message):
    server.files["/RTE.zip"] = content
    assert message in error_line(capsys, fetch(tmp_path, "rte", "--from", server.address))
    assert visible(tmp_path) == []
    # The next try does not compare with the checksum of the refused file.
    server.files["/RTE.zip"] = ARCHIVE
    assert fetch(tmp_path, "rte", "--from", server.address) == 0


def test_an_archive_cannot_write_outside_its_folder(tmp_path, capsys):
    mirror, data = tmp_path / "mirror", tmp_path / "data"
    mirror.mkdir()
    with tarfile.open(mirror / "Stsbenchmark.tar.gz", "w:gz") as archive:
        member = tarfile.TarInfo("../../escaped")
        member.size = 1
        archive.addfile(member, io.BytesIO(b"x"))
    assert "damaged" in error_line(capsys, fetch(data, "stsb", "--from", str(mirror)))
    assert not list(tmp_path.rglob("escaped"))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["rte", "--from", "http://127.0.0.1:9"], "could not be fetched"),
        (["rte", "--from", "/nowhere"], "/nowhere/RTE.zip could not be fetched ([Errno 2] No such file"),
        (["quora"], "BiMPM"),
        (["glove"], "glove.6B"),
    ],
)
def test_fetch_errors_are_one_line(tmp_path, monkeypatch, capsys, words, message):
    monkeypatch.chdir(tmp_path)
    line = error_line(capsys, fetch(tmp_path, *words))
    assert message in line
    assert visible(tmp_path) == []


def test_nothing_is_fetched_unless_its_license_is_accepted(tmp_path, capsys):
    assert "--accept-licenses" in error_line(capsys, fetch(tmp_path, "rte", accept=False))
    assert not (tmp_path / "RTE").exists()


def test_every_data_set_but_generated_ones_has_a_release(capsys):
    covered = {name for release in releases().values() for name in release.data_sets}
    assert covered == set(catalog.CATALOG)
    for release in releases().values():
        assert all(catalog.CATALOG[name].folder.split("/")[0] == release.folder for name in release.data_sets)
    assert main(["data", "fetch"]) == 0
    listed = capsys.readouterr().out
    assert all(re.search(rf"^{re.escape(name)} ", listed, re.MULTILINE) for name in releases())
