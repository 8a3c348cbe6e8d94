"""Search for bytes on which a reader crashes, guided by the code that they reach.

    pip install -e '.[fuzz]'
    python tests/faults/fuzz.py READER --seconds 120

It starts from the files in `corpus/READER`. A file on which the reader crashes is written to the current folder: add it
to the corpus, which `test_corpus.py` reads, and repair the reader.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
CORPUS = HERE / "corpus"
MAX_BYTES = 1 << 16


def main() -> None:
    import atheris

    sys.path.insert(0, str(HERE.parent))
    with atheris.instrument_imports(include=["critiqor"]):
        from readers import READERS

    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("reader", choices=READERS)
    parser.add_argument("--seconds", type=int, default=120, help="how long to search (default: 120)")
    given = parser.parse_args()
    # What is found on the way is written to the first folder; the corpus in the repository stays small.
    found = tempfile.mkdtemp(prefix="critiqor-fuzz-")
    options = [f"-max_total_time={given.seconds}", f"-max_len={MAX_BYTES}", "-timeout=10", "-rss_limit_mb=2048"]
    atheris.Setup([sys.argv[0], found, str(CORPUS / given.reader), *options], READERS[given.reader])
    atheris.Fuzz()


if __name__ == "__main__":
    main()
