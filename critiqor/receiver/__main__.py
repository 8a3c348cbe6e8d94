"""`python -m critiqor.receiver`: the process in which `critiqor receive` imports traces."""

from critiqor.receiver.importing import run_importer

if __name__ == "__main__":
    run_importer()
