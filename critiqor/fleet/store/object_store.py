"""An object store with the operations that runs need: create what is not there, read, list. Nothing is ever replaced.

obstore does the requests. It retries those that fail with a server error or a broken connection, with back-off; what
fails nevertheless becomes a `FleetError`. A request that creates an object can succeed although its answer is lost;
its repetition then finds the object there already, so the caller compares what is there with what it wanted to create.

Large files are sent in parts to `uploads/<digest>`, and copied to their name by the store, if that is free: parts
cannot be sent to a name only if it is free. The name is that of the content, so an upload that was killed is used by
the next one if it is complete, and replaced with the same bytes otherwise.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar, cast
from urllib.parse import urlsplit

from critiqor.errors import UsageError
from critiqor.fleet.errors import FleetError, FleetUnavailableError, missing_extra
from critiqor.fleet.manifest import Manifest, decode_manifest
from critiqor.fleet.store.request_errors import SET_CREDENTIALS, final_error, is_unreachable, reason
from critiqor.model.evidence import SealedFile
from critiqor.storage.atomic import sync_folder
from critiqor.storage.paths import FOLDER_MODE

if TYPE_CHECKING:
    from obstore.store import ObjectStore

SCHEMES = {"file": "file://", "s3": "s3://", "gs": "gs://", "az": "az://"}
MAX_SINGLE = 8 << 20
"""Largest object in bytes that is sent in one request; larger ones are sent in parts."""
PART_BYTES = 8 << 20
MAX_SMALL = 64 << 20
"""Largest object in bytes that is read into memory as a whole."""
READ_THREADS = 8
RETRIES = 5
"""How often obstore repeats a request that fails with a server error or a broken connection."""
ATTEMPTS = 4
"""Attempts of a request, each of which obstore repeats itself."""
CONNECT_SECONDS = 5.0
"""How long a connection may take to be made."""
ANSWER_SECONDS = 60.0
"""How long a request may take as a whole, with up to eight megabytes over a slow network."""
GIVE_UP_SECONDS = 20.0
"""Time after which a request that failed is not repeated any more."""
_BLOCK = 1 << 16
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT", "AZURE_STORAGE_ENDPOINT")
_Result = TypeVar("_Result")


def open_store(url: str) -> FleetStore:
    """Open a store by its address: `file://`, `s3://`, `gs://` or `az://`, with an optional path within it.

    Credentials come from the variables that the tools of each provider use, such as `AWS_ACCESS_KEY_ID`. No request is
    made. Raise `UsageError` if the address cannot be used, `FleetError` if the extra is not installed.
    """
    url = checked_url(url)
    try:
        from obstore.exceptions import BaseError
        from obstore.store import LocalStore, from_url
    except ImportError as error:
        raise missing_extra(error) from error
    try:
        if url.startswith(SCHEMES["file"]):
            root = Path(urlsplit(url).path)
            root.mkdir(parents=True, exist_ok=True, mode=FOLDER_MODE)
            return FleetStore(url, LocalStore(root))
        options: dict[str, Any] = {
            "client_options": {
                "connect_timeout": timedelta(seconds=CONNECT_SECONDS),
                "timeout": timedelta(seconds=ANSWER_SECONDS),
            }
            | ({"allow_http": True} if _is_on_loopback() else {}),
            "retry_config": {
                "max_retries": RETRIES,
                "retry_timeout": timedelta(seconds=GIVE_UP_SECONDS),
                "backoff": {"init_backoff": timedelta(milliseconds=100), "max_backoff": timedelta(seconds=5)},
            },
        }
        if url.startswith(SCHEMES["s3"]):
            # The store itself copies a large upload to its name if that is free.
            options["config"] = {"copy_if_not_exists": "multipart"}
        return FleetStore(url, from_url(url, **options))
    except (BaseError, ValueError) as error:
        raise UsageError(f"the store {url} cannot be opened: {reason(error)}", fix="critiqor fleet status") from error
    except OSError as error:
        raise FleetUnavailableError(f"the store {url} cannot be opened: {error.strerror}") from error


def checked_url(url: str) -> str:
    """Return the address of a store without a slash at its end. Raise `UsageError` if it is none."""
    try:
        parts = urlsplit(url.strip())
    except ValueError as error:
        raise UsageError(f"the address of the store is not valid: {error}") from error
    fix = "use file:///PATH, s3://BUCKET/PATH, gs://BUCKET/PATH or az://CONTAINER/PATH"
    if parts.scheme not in SCHEMES:
        raise UsageError("the address of the store has an unknown scheme", fix=fix)
    if "@" in parts.netloc or parts.query or parts.fragment:
        message = "the address of the store must not contain credentials or parameters"
        raise UsageError(message, fix=SET_CREDENTIALS)
    is_file = parts.scheme == "file"
    if bool(parts.netloc) == is_file or (is_file and not parts.path.startswith("/")):
        raise UsageError("the address of the store names no " + ("absolute path" if is_file else "bucket"), fix=fix)
    if any(part in (".", "..") for part in parts.path.split("/")) or not url.isprintable():
        raise UsageError("the address of the store contains . or .. or characters that cannot be printed", fix=fix)
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/') or ('/' if is_file else '')}"


class FleetStore:
    """An object store."""

    def __init__(self, url: str, store: ObjectStore) -> None:
        self.url = url
        """Its address, which contains no credentials."""
        self.problems: list[str] = []
        """What is in the store and cannot be used, one sentence each."""
        self._store = store

    def create(self, path: str, content: bytes) -> bool:
        """Create an object. Return False if there is one of that name, which stays as it is."""
        put = self._store.put
        try:
            return self._creating(lambda: put(path, content, mode="create", use_multipart=False), path)
        except FileNotFoundError as error:
            raise self._missing(error) from error

    def create_from_file(self, path: str, file: BinaryIO, size: int, digest: str) -> bool:
        """Create an object from a file of that size and digest, in parts if it is large.

        Return False if there is one of that name, which stays as it is.
        """
        if size <= MAX_SINGLE:
            file.seek(0)
            return self.create(path, file.read())
        if self.exists(path):
            return False
        upload = f"uploads/{digest.removeprefix('sha256:')}"
        for _ in range(ATTEMPTS):
            try:
                if self.size(upload) != size:
                    self._try(lambda: self._upload(upload, file), f"create {path}")
            except FileNotFoundError as error:
                raise self._missing(error) from error
            try:
                is_new = self._creating(lambda: self._store.copy(upload, path, overwrite=False), path)
            except FileNotFoundError:
                # Another process that stores the same run has removed the upload after it created the object.
                if self.exists(path):
                    return False
                continue
            with contextlib.suppress(FleetError, FileNotFoundError):  # credentials may not allow it
                self._try(lambda: self._store.delete(upload), f"delete {upload}")
            return is_new
        raise FleetUnavailableError(f"{path} could not be created in {self.url}")

    def _upload(self, path: str, file: BinaryIO) -> None:
        file.seek(0)
        self._store.put(path, file, use_multipart=True, chunk_size=PART_BYTES, max_concurrency=4)

    def read(self, path: str, limit: int = MAX_SMALL) -> bytes:
        """Return the content of an object. Raise `FleetError` if it is missing or has more bytes than the limit."""
        if (content := self.read_if_exists(path, limit)) is None:
            raise FleetError(f"there is no {path} in {self.url}")
        return content

    def read_if_exists(self, path: str, limit: int = MAX_SMALL) -> bytes | None:
        """Return the content of an object, in one request; None if there is none of that name."""
        try:
            return self._try(lambda: self._read_at_once(path, limit), f"read {path}")
        except FileNotFoundError:
            return None

    def _read_at_once(self, path: str, limit: int) -> bytes:
        found = self._store.get(path)
        if found.meta["size"] > limit:
            raise FleetError(f"{path} in {self.url} is larger than the {limit:,} bytes that it may have")
        return bytes(found.bytes())

    def pieces(self, path: str, size: int | None = None) -> Iterator[bytes]:
        """Yield the content of an object in pieces, which are requests of their own.

        `size` is how large the object should be; one that is larger is read in whole.
        """
        if size is not None and size <= PART_BYTES:
            yield self.read(path)
            return
        found = self.size(path)
        if found is None:
            raise FleetError(f"there is no {path} in {self.url}")
        for start in range(0, found, PART_BYTES):
            yield self.read_range(path, start, min(found, start + PART_BYTES))

    def sealed_file(self, path: str, size: int | None = None) -> SealedFile:
        """Read an object, and return its size and digest. `size` is how large it should be."""
        digest, found = hashlib.sha256(), 0
        for piece in self.pieces(path, size):
            digest.update(piece)
            found += len(piece)
        return SealedFile(found, f"sha256:{digest.hexdigest()}")

    def read_range(self, path: str, start: int, end: int) -> bytes:
        """Return a part of an object."""
        try:
            return self._try(lambda: bytes(self._store.get_range(path, start=start, end=end)), f"read {path}")
        except FileNotFoundError as error:
            raise FleetError(f"there is no {path} in {self.url}") from error

    def reader(self, path: str, size: int | None = None) -> BinaryIO:
        """Return an object as a file that can be read and seeked; it fetches the parts that are read."""
        if size is None:
            size = self.size(path)
        if size is None:
            raise FleetError(f"there is no {path} in {self.url}")
        return io.BufferedReader(cast("io.RawIOBase", _RangedFile(self, path, size)), _BLOCK)

    def size(self, path: str) -> int | None:
        """Return the size of an object in bytes; None if there is none of that name."""
        try:
            return self._try(lambda: int(self._store.head(path)["size"]), f"read {path}")
        except FileNotFoundError:
            return None

    def exists(self, path: str) -> bool:
        """Return whether there is an object of that name."""
        return self.size(path) is not None

    def list(self, prefix: str, after: str | None = None) -> Iterator[str]:
        """Yield the names of the objects in a folder, or of those that sort after a name, in any order."""
        attempt, begun = 0, time.monotonic()
        while True:
            try:
                for chunk in self._store.list(prefix, offset=after):
                    for found in chunk:
                        attempt, begun, after = 0, time.monotonic(), str(found["path"])
                        yield after
                return
            except FileNotFoundError:
                return
            except Exception as error:
                # Stores list names in their order, so a listing that broke off is continued after the last one.
                attempt += 1
                self._give_up_or_wait(error, attempt, begun, f"list {prefix}")

    def check(self) -> None:
        """Raise `FleetError` if the store cannot be reached or its content may not be listed."""
        try:
            self._try(lambda: next(iter(self._store.list("manifests", chunk_size=1)), None), "list manifests")
        except FileNotFoundError as error:
            raise self._missing(error) from error

    def manifests(self, host: str | None = None) -> Iterator[Manifest]:
        """Yield the manifests of a host, or of all. What cannot be used is added to `problems` and left out."""
        names = self.list("manifests" if host is None else f"manifests/{host}")
        with ThreadPoolExecutor(READ_THREADS) as pool:
            # A few at a time: the names of millions of runs are not held, and neither are their manifests.
            while batch := list(islice(names, READ_THREADS * 16)):
                # Decoded here: decoding is not what takes the time, and other threads would do it at the same time.
                for path, data in zip(batch, pool.map(self._read_or_problem, batch), strict=True):
                    try:
                        yield self._manifest(data, path)
                    except FleetError as error:
                        self.problems.append(error.message)

    def manifest(self, path: str) -> Manifest:
        """Read one manifest. Raise `FleetError` if it cannot be used."""
        return self._manifest(self.read(path, MAX_MANIFEST), path)

    def _manifest(self, data: bytes | FleetError, path: str) -> Manifest:
        if isinstance(data, FleetError):
            raise data
        try:
            return decode_manifest(data, path)
        except ValueError as error:
            raise FleetError(f"{path} in {self.url} is no manifest of a run: {error}") from error

    def _read_or_problem(self, path: str) -> bytes | FleetError:
        try:
            return self.read(path, MAX_MANIFEST)
        except FleetUnavailableError:
            raise
        except FleetError as error:
            return error

    def _creating(self, request: Callable[[], object], path: str) -> bool:
        """Make a request that creates an object. Return False if there is one already."""
        action = f"create {path}"
        from obstore.exceptions import AlreadyExistsError

        try:
            self._try(request, action)
        except AlreadyExistsError:
            return False
        self._sync(path)
        return True

    def _sync(self, path: str) -> None:
        """Write an object of a folder to disk: what is stored must survive a power failure, as in other stores."""
        if self.url.startswith(SCHEMES["file"]):
            file = Path(urlsplit(self.url).path, path)
            with file.open("rb") as written:
                os.fsync(written.fileno())
            sync_folder(file.parent)

    def _missing(self, error: Exception) -> FleetUnavailableError:
        message = f"the store {self.url} does not exist: {reason(error)}"
        return FleetUnavailableError(message, fix="create the bucket, or correct its name with critiqor fleet init")

    def _try(self, request: Callable[[], _Result], action: str) -> _Result:
        """Make a request, and repeat it with back-off while the store fails.

        Raise `FileNotFoundError` if the object is not there, and `AlreadyExistsError` if it is already.
        """
        attempt, begun = 0, time.monotonic()
        while True:
            attempt += 1
            try:
                return request()
            except Exception as error:
                self._give_up_or_wait(error, attempt, begun, action)

    def _give_up_or_wait(self, error: Exception, attempt: int, begun: float, action: str) -> None:
        """Wait before the next attempt, or raise the error that a failed request leads to.

        `begun` is when the first attempt was made, by the monotonic clock.
        """
        from obstore import exceptions

        if isinstance(error, FileNotFoundError | exceptions.AlreadyExistsError | FleetError):
            raise error
        if not isinstance(error, exceptions.BaseError | OSError):
            raise error
        message = f"the store {self.url} failed to {action}: {reason(error)}"
        if (final := final_error(error, self.url, message)) is not None:
            raise final from error
        is_late = time.monotonic() - begun > GIVE_UP_SECONDS
        if attempt >= ATTEMPTS or is_late or is_unreachable(error):
            raise FleetUnavailableError(message, fix="type the same command again when it can be reached") from error
        time.sleep(0.2 * 2**attempt)


MAX_MANIFEST = 1 << 18
"""Largest manifest in bytes that is read."""


class _RangedFile(io.RawIOBase):
    """An object as a raw file; each read is a request, so it belongs below a buffer."""

    def __init__(self, store: FleetStore, path: str, size: int) -> None:
        self._store, self._path, self._size = store, path, size
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._size}[whence]
        self._position = max(0, start + offset)
        return self._position

    def readinto(self, buffer: Any) -> int:
        end = min(self._size, self._position + len(buffer))
        if end <= self._position:
            return 0
        data = self._store.read_range(self._path, self._position, end)
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)


def _is_on_loopback() -> bool:
    """Return whether the endpoint in the environment is on this machine, where a request needs no encryption."""
    endpoint = next((value for name in _ENDPOINTS if (value := os.environ.get(name))), "")
    return endpoint.startswith("http://") and urlsplit(endpoint).hostname in _LOOPBACK
