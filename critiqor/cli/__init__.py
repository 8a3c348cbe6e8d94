"""The command line: one file a verb; parse, call, print."""

from __future__ import annotations

import sys
from itertools import takewhile

from critiqor.cli.group import critiqor
from critiqor.cli.output import report_error
from critiqor.cli.terminal.ascii_fallback import use_letters_of


def main() -> None:
    """The `critiqor` command. No traceback reaches a user."""
    # What follows `--` is for the launched program.
    as_json = "--json" in takewhile(lambda word: word != "--", sys.argv[1:])
    for stream in (sys.stdout, sys.stderr):
        use_letters_of(stream)
    try:
        # Outside its standalone mode, click returns the exit code that a verb asked for.
        sys.exit(critiqor.main(prog_name="critiqor", standalone_mode=False) or 0)
    except Exception as error:
        sys.exit(report_error(error, as_json=as_json))
    except KeyboardInterrupt as interrupt:
        sys.exit(report_error(interrupt, as_json=as_json))
