"""Where tasks are executed: processes of this machine, or workers of a Dask cluster.

Both have the interface of `concurrent.futures.Executor`. A process pool breaks as a whole when one of its processes
dies, so it can be started again. A cluster gives the tasks of a worker that died to another one by itself, and reports
a task as failed if several workers died of it.
"""

from __future__ import annotations

import os
import time
from abc import ABC, abstractmethod
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING

from critiqor.fleet.errors import FleetError, missing_extra
from critiqor.fleet.scratch import scratch_folder

if TYPE_CHECKING:
    from distributed import Client

CONNECT_SECONDS = 10
"""How long a scheduler may take to answer."""
CHECK_SECONDS = 5.0
"""How often a cluster is asked for the number of its workers."""


class ClusterError(FleetError):
    """The workers do not answer, have gone away, or cannot do their work."""


class Workers(ABC):
    """What executes tasks. Closing it ends what it has started."""

    executor: Executor
    scratch: str | None = None
    """Folder for temporary files of tasks; None if each worker has one of its own."""

    @property
    @abstractmethod
    def capacity(self) -> int:
        """How many tasks can be executed at once."""

    @abstractmethod
    def restart(self) -> None:
        """Replace an executor that is broken."""

    @abstractmethod
    def missing(self) -> str | None:
        """Return why no task is executed at the moment; None if there are workers."""

    @abstractmethod
    def close(self) -> None:
        """End everything; tasks that are not finished are given up."""

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


def open_workers(cluster: str | None = None, processes: int | None = None) -> Workers:
    """Return processes of this machine, one per core if no number is given, or the workers of a cluster."""
    return ProcessWorkers(processes) if cluster is None else ClusterWorkers(cluster)


class ProcessWorkers(Workers):
    """A pool of processes on this machine."""

    def __init__(self, processes: int | None = None) -> None:
        self._processes = processes or len(os.sched_getaffinity(0))
        # A killed process leaves its files behind, so that all are in one folder, which goes away with the pool.
        self._folder = scratch_folder("compute-")
        self.scratch = str(self._folder.__enter__())
        self.executor = self._start()

    def _start(self) -> ProcessPoolExecutor:
        from multiprocessing import get_context

        # A forked copy of a process with threads, as those of the object store and of the progress line, can deadlock.
        context = get_context("spawn")
        return ProcessPoolExecutor(self._processes, mp_context=context, initializer=_end_with_parent)

    @property
    def capacity(self) -> int:
        return self._processes

    def restart(self) -> None:
        self.executor.shutdown(wait=True, cancel_futures=True)
        self.executor = self._start()

    def missing(self) -> str | None:
        return None

    def close(self) -> None:
        self.executor.shutdown(wait=True, cancel_futures=True)
        self._folder.__exit__(None, None, None)


def _end_with_parent() -> None:
    """Have this process end when the one that started the pool is killed; it would wait for tasks for ever."""
    import signal
    import threading
    from multiprocessing import parent_process

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches every process; the first one ends the others
    parent = parent_process()
    if parent is not None:

        def wait() -> None:
            parent.join()
            os._exit(1)

        threading.Thread(target=wait, daemon=True).start()


class ClusterWorkers(Workers):
    """The workers of a Dask cluster. They need the same version of Critiqor, and access to the store."""

    def __init__(self, address: str) -> None:
        """Connect to the scheduler. Raise `ClusterError` if it does not answer or has no workers."""
        self._address = address
        self._client = _connect(address)
        self._threads = 0
        self._asked_at = 0.0
        if self.missing() is not None:
            self.close()
            raise ClusterError(f"the cluster at {address} has no workers", fix=f"dask worker {address} --nthreads 1")
        self.executor = self._client.get_executor(pure=False)

    @property
    def capacity(self) -> int:
        if time.monotonic() - self._asked_at > CHECK_SECONDS:
            self.missing()
        return max(1, self._threads)

    def restart(self) -> None:
        raise ClusterError(
            f"the cluster at {self._address} has gone away; what was diagnosed is stored",
            fix="start it, then type the same command again: it goes on with the rest",
        )

    def missing(self) -> str | None:
        # A client that was given up leaves some of its tasks without an end.
        if self._client.status not in ("running", "connecting"):
            self.restart()
        with suppress(OSError, TimeoutError):  # the client connects again by itself, or gives up
            self._threads = sum(self._client.nthreads().values())
        self._asked_at = time.monotonic()
        if self._threads:
            return None
        return f"the cluster at {self._address} has no workers; waiting (dask worker {self._address} --nthreads 1)"

    def close(self) -> None:
        with suppress(OSError, TimeoutError, RuntimeError):
            self._client.close(timeout=CONNECT_SECONDS)


def _connect(address: str) -> Client:
    import asyncio

    try:
        import dask
        from distributed import Client
    except ImportError as error:
        raise missing_extra(error) from error
    _silence_logs()
    dask.config.set({"distributed.comm.timeouts.connect": f"{CONNECT_SECONDS}s"})
    try:
        # A client that cannot connect prints tracebacks when it is removed, so the scheduler is asked first.
        asyncio.run(_identity(address))
        return Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        message = f"no Dask scheduler answers at {address}"
        raise ClusterError(message, fix="dask scheduler   (or leave out --cluster to use this machine)") from error


async def _identity(address: str) -> object:
    """Ask a scheduler who it is."""
    import asyncio

    from distributed import rpc

    async with rpc(address, timeout=CONNECT_SECONDS) as scheduler:
        return await asyncio.wait_for(scheduler.identity(), 2 * CONNECT_SECONDS)


def _silence_logs() -> None:
    """Silence the logs of Dask: exceptions say the same, and a log would be mixed with the progress line."""
    import logging

    for name in list(logging.root.manager.loggerDict):
        if name.partition(".")[0] in ("distributed", "tornado"):
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)
