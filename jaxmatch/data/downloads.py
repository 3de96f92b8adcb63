"""Downloads that can be resumed. The library pooch verifies the checksums."""

import contextlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jaxmatch import files
from jaxmatch.errors import InputError, NotInstalled
from jaxmatch.printable import shown

# Suffixes of two files of an interrupted download: its bytes so far, and their address and version.
_PART, _STATE = ".part", ".part.json"
_BLOCK = 1 << 16
_SECONDS = 30  # timeout without a response

Progress = Callable[[int, int | None], None]


def download(address: str, path: Path, checksum: str, progress: Progress) -> None:
    """Downloads a file, or copies it from a folder.

    Arguments:
      address: an HTTP URL, or the path of a local file.
      path: the file to create; it is created whole or not at all.
      checksum: "sha256:..." or "md5:..."; empty if no checksum is known.
      progress: the function to call with the number of bytes downloaded and the total number (None if unknown).

    Raises:
      InputError: pooch is not installed, the file cannot be downloaded or copied, or it has another checksum.
    """
    try:
        import pooch
    except ImportError:
        raise NotInstalled("a download", "pooch", "fetch") from None
    pooch.get_logger().setLevel("ERROR")
    fetch = _download_url if "://" in address else _copy_file

    def downloader(url: str, output: str, _: Any) -> None:
        fetch(url, Path(output), path, progress)

    try:
        pooch.retrieve(address, checksum or None, fname=path.name, path=path.parent, downloader=downloader)
    except ValueError as error:
        if "hash of downloaded file" not in str(error):
            raise
        raise InputError(
            f"the download from {address} has another checksum than {checksum}",
            path=path,
            remedy="it was not kept; try again, or take it from a mirror with --from",
        ) from None


def _copy_file(source: str, output: Path, path: Path, progress: Progress) -> None:
    try:
        shutil.copyfile(source, output)
    except OSError as error:
        remedy = "give a folder or an address that has it"
        raise InputError(f"it cannot be copied ({error.strerror})", path=source, remedy=remedy) from None
    progress(output.stat().st_size, output.stat().st_size)


def _download_url(address: str, output: Path, path: Path, progress: Progress) -> None:
    """Downloads to a file next to `path`, or resumes an interrupted download there, and moves the file to `output`."""
    import requests

    part, state = (path.with_name(f".{path.name}{suffix}") for suffix in (_PART, _STATE))
    received, version = _partial_download(part, state, address)
    # The server must start from the first byte if it has another version now.
    headers = {"Range": f"bytes={received}-", "If-Range": version} if received else {}
    # Without compression, Content-Length and the received bytes both count bytes of the file.
    headers["Accept-Encoding"] = "identity"
    try:
        with requests.get(address, headers=headers, stream=True, timeout=_SECONDS) as response:
            if response.status_code == 416:  # the server has no bytes after those already downloaded
                if response.headers.get("Content-Range") != f"bytes */{received}":
                    part.unlink(missing_ok=True)
                    raise InputError(f"{address} changed while it was fetched", remedy="try again")
                total = received
            else:
                response.raise_for_status()
                if response.status_code != 206:
                    received = 0
                length = response.headers.get("Content-Length", "")
                total = received + int(length) if length.isdecimal() else None
                version = response.headers.get("ETag") or response.headers.get("Last-Modified") or ""
                files.write_json(state, {"address": address, "version": version})
                with open(part, "ab" if received else "wb") as file:
                    progress(received, total)
                    for block in response.iter_content(_BLOCK):
                        file.write(block)
                        received += len(block)
                        progress(received, total)
    except requests.RequestException as error:
        status = getattr(error.response, "status_code", None)
        reason = f"status {status}" if status else type(error).__name__
        remedy = "run the same command to resume" if received else "try again later"
        remedy += ", or take a mirror with --from"
        raise InputError(f"{address} could not be fetched ({reason})", remedy=remedy) from None
    if total is not None and received != total:
        raise InputError(
            f"{address} ended after {received:,} of {total:,} bytes",
            remedy="run the same command to resume",
        )
    os.replace(part, output)
    state.unlink(missing_ok=True)


def _partial_download(part: Path, state: Path, address: str) -> tuple[int, str]:
    """Returns the number of bytes that an interrupted download of this address has, and their version; (0, "") if the
    download cannot be resumed.
    """
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        stored = json.loads(state.read_text(encoding="utf-8"))
        if stored["address"] == address and stored["version"] and not stored["version"].startswith("W/"):
            return part.stat().st_size, stored["version"]
    return 0, ""


def is_address(source: str) -> bool:
    """Returns whether a mirror is an address rather than a folder.

    Raises:
      InputError: `source` is neither an HTTP address nor an existing folder.
    """
    if source.startswith(("http://", "https://")):
        return True
    if "://" in source:
        raise InputError(f"{shown(source)} is not an HTTP address", remedy="give https://..., or a folder")
    if not Path(source).is_dir():
        raise InputError("there is no such folder", path=source, remedy="give a folder, or https://...")
    return False
