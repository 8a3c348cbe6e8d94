"""The command line. Each verb is a module in `verbs` that parses options, calls the library and prints the result."""

from __future__ import annotations

import sys
from itertools import takewhile

from critiqor.cli.output import report_error
from critiqor.cli.root_command import critiqor
from critiqor.cli.terminal.ascii_fallback import enable_ascii_fallback


def main() -> None:
    """Run the command line: the verb that the arguments of this process name. Errors are shown without a traceback."""
    # Arguments after `--` belong to the launched program.
    as_json = "--json" in takewhile(lambda word: word != "--", sys.argv[1:])
    for stream in (sys.stdout, sys.stderr):
        enable_ascii_fallback(stream)
    try:
        # Outside its standalone mode, click returns the exit code that a verb set.
        sys.exit(critiqor.main(prog_name="critiqor", standalone_mode=False) or 0)
    except Exception as error:
        sys.exit(report_error(error, as_json=as_json))
    except KeyboardInterrupt as interrupt:
        sys.exit(report_error(interrupt, as_json=as_json))
