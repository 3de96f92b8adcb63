"""A local S3 server (moto) for tests, and the environment variables with which AWS's packages find it."""

import contextlib
import logging
import urllib.request
from collections.abc import Iterator

import fsspec
import pytest
from s3fs import S3FileSystem

BUCKET = "bucket"


@contextlib.contextmanager
def serving() -> Iterator[str]:
    """Runs the server with one bucket in a thread, and yields its address."""
    server = pytest.importorskip("moto.server", reason="moto is not installed").ThreadedMotoServer
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    running = server("127.0.0.1", 0, verbose=False)
    running.start()
    host, port = running.get_host_and_port()
    # moto keeps the content of earlier servers of this process.
    urllib.request.urlopen(urllib.request.Request(f"http://{host}:{port}/moto-api/reset", method="POST")).close()
    variables = {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": "somebody",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_MAX_ATTEMPTS": "1",
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in variables.items():
            patch.setenv(name, value)
        S3FileSystem.clear_instance_cache()  # cached file systems belong to an earlier server
        fsspec.filesystem("s3", skip_instance_cache=True).mkdir(BUCKET)
        yield variables["AWS_ENDPOINT_URL"]
        S3FileSystem.clear_instance_cache()
    running.stop()
