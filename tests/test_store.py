"""Objects in a store: S3, memory and local files behave alike, and unusable stores are refused in one line."""

import errno
import sys

import fsspec
import pytest
import s3_server

from jaxmatch import store as stores
from jaxmatch.errors import InputError
from jaxmatch.store import Store, StoreError


@pytest.fixture(scope="module")
def s3():
    with s3_server.serving() as address:
        yield address


@pytest.fixture
def no_retry_delay(monkeypatch):
    monkeypatch.setattr(stores, "WAITS", (0.0, 0.0))


@pytest.fixture(params=["memory", "file", "s3"])
def store(request, tmp_path):
    if request.param == "s3":
        request.getfixturevalue("s3")
    places = {"memory": f"memory://{tmp_path.name}", "file": f"file://{tmp_path}/made", "s3": "s3://bucket/folder/"}
    return Store(places[request.param])


def test_objects_are_written_read_listed_and_removed(store, tmp_path):
    with store.token() as token:
        store.check(token)
    with pytest.raises(InputError, match="the store cannot be reached .it does not return what was written"):
        store.check(token)
    assert store.names("") == [] and store.read("a/b") is None and not store.download("a/b", tmp_path / "none")
    store.write("a/b", b"1")
    store.write("a/b", b"2")
    assert store.create("a/c", b"3") and not store.create("a/c", b"4")
    (tmp_path / "file").write_bytes(b"5")
    store.upload("a/d/e", tmp_path / "file")
    assert store.names("a") == ["b", "c", "d"] and store.names("none") == []
    assert store.read_all(["a/b", "a/c", "a/d/e", "a/f"]) == {"a/b": b"2", "a/c": b"3", "a/d/e": b"5"}
    assert store.download("a/d/e", tmp_path / "back") and (tmp_path / "back").read_bytes() == b"5"
    # Another client that has listed the folder before sees changes immediately.
    other = Store(store.url)
    assert other.names("a") == ["b", "c", "d"]
    store.remove("a/b", "a/none")
    assert other.names("a") == ["c", "d"] and other.read("a/b") is None
    assert store.at("a/c") == f"{store.url}/a/c" and not store.url.endswith("/")


def test_create_without_atomic_support_checks_for_the_object_first(monkeypatch, tmp_path):
    def refuses(*arguments, mode="overwrite", **options):
        if mode == "create":
            raise NotImplementedError
        return original(*arguments, **options)

    original = fsspec.filesystem("memory").pipe_file
    monkeypatch.setattr(type(fsspec.filesystem("memory")), "pipe_file", lambda self, *a, **o: refuses(*a, **o))
    store = Store(f"memory://{tmp_path.name}")
    assert store.create("a", b"1") and not store.create("a", b"2") and store.read("a") == b"1"


@pytest.mark.parametrize("seen", [True, False])
def test_create_returns_false_on_an_unspecific_precondition_error(monkeypatch, tmp_path, seen):
    """With such a store (MinIO), s3fs only reports that a precondition does not hold."""

    def refuses(self, path, content, mode="overwrite", **options):
        if mode == "create" and self.exists(path):
            raise OSError(errno.EINVAL, "At least one of the pre-conditions you specified did not hold")
        return original(self, path, content, **options)

    memory = type(fsspec.filesystem("memory"))
    original = memory.pipe_file
    monkeypatch.setattr(memory, "pipe_file", refuses)
    monkeypatch.setattr("jaxmatch.store.WAITS", (0.0,))
    store = Store(f"memory://{tmp_path.name}")
    assert store.create("a", b"1")
    if not seen:  # another process creates it between the check and the write
        answers = iter([None, b"1"])
        monkeypatch.setattr(store, "read", lambda name: next(answers))
    assert not store.create("a", b"2")


def test_interrupted_write_keeps_the_previous_local_file(tmp_path, monkeypatch):
    store = Store(f"file://{tmp_path}")
    store.write("a", b"before")
    original = type(fsspec.filesystem("file")).pipe_file

    def stops(self, path, content, **options):
        original(self, path, content[:3])
        raise KeyboardInterrupt

    monkeypatch.setattr(type(fsspec.filesystem("file")), "pipe_file", stops)
    with pytest.raises(KeyboardInterrupt):
        store.write("a", b"after")
    assert store.read("a") == b"before"


def test_failed_requests_are_retried_a_limited_number_of_times(monkeypatch, tmp_path, no_retry_delay):
    store, calls = Store(f"memory://{tmp_path.name}"), []
    store.write("a", b"1")
    original = type(fsspec.filesystem("memory")).cat_file

    def fails(self, *arguments, **options):
        calls.append(arguments)
        if len(calls) < failures:
            raise ConnectionError("the network is gone\nand more")
        return original(self, *arguments, **options)

    monkeypatch.setattr(type(fsspec.filesystem("memory")), "cat_file", fails)
    failures = 3
    assert store.read("a") == b"1"
    calls, failures = [], 9
    with pytest.raises(StoreError, match=f"^memory://{tmp_path.name}: the network is gone$"):
        store.read("a")
    assert len(calls) == 3


def test_write_to_a_missing_bucket_raises_store_error(s3, no_retry_delay):
    with pytest.raises(StoreError, match="bucket does not exist"):
        Store("s3://none/folder").write("a", b"")


def refused(url):
    with pytest.raises(InputError) as error:
        Store(url).check()
    return str(error.value)


def test_invalid_store_urls_are_refused():
    assert refused("runs/some") == "'runs/some' is not a URL of an object store; give --store as s3://BUCKET/FOLDER"
    assert refused("s3://") == "'s3://' is not a URL of an object store; give --store as s3://BUCKET/FOLDER"
    assert refused("s4://bucket") == 'fsspec knows no store s4://; did you mean "s3"?'


@pytest.mark.parametrize(
    ("url", "module", "message"),
    [
        ("s3://bucket", "fsspec", "--store needs fsspec, which is not installed; pip install 'jaxmatch[store]'"),
        ("s3a://bucket", "s3fs", "a package for s3a:// is not installed; pip install 'jaxmatch[store]'"),
        ("gs://bucket", "gcsfs", "a package for gs:// is not installed; Please install gcsfs to access Google Storage"),
    ],
)
def test_missing_store_packages_are_named(monkeypatch, url, module, message):
    monkeypatch.setitem(sys.modules, module, None)
    assert refused(url) == message


def test_unreachable_or_forbidden_stores_are_refused(s3, monkeypatch):
    message = refused("s3://none/folder")
    assert message == "s3://none/folder: there is no such bucket (The specified bucket does not exist); create it first"
    with monkeypatch.context() as patch:
        patch.setattr("moto.settings.INITIAL_NO_AUTH_ACTION_COUNT", 0.0)  # from now on, it checks the key
        message = refused("s3://bucket/folder")
    assert message.startswith("s3://bucket/folder: the store refuses access (")
    assert message.endswith("; check the credentials for it")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    fsspec.filesystem("s3").clear_instance_cache()
    assert refused("s3://bucket/folder").startswith(
        "s3://bucket/folder: the store cannot be reached (Could not connect"
    )
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    fsspec.filesystem("s3").clear_instance_cache()
    message = refused("s3://bucket/folder")
    assert "refuses access (Unable to locate credentials); check the credentials for it" in message
    fsspec.filesystem("s3").clear_instance_cache()


def test_store_that_times_out_is_refused(monkeypatch, tmp_path):
    import threading

    never = threading.Event()
    monkeypatch.setattr(stores, "SECONDS_TO_ANSWER", 0.05)
    monkeypatch.setattr(type(fsspec.filesystem("memory")), "pipe_file", lambda *a, **o: never.wait(10))
    message = refused(f"memory://{tmp_path.name}")
    never.set()
    assert "the store cannot be reached (no answer within 0 seconds)" in message
