"""`python -m critiqor.live`: the process in which the monitor diagnoses a run while it is recorded."""

from critiqor.live.worker import run_worker

if __name__ == "__main__":
    run_worker()
