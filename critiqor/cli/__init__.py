"""The command line: one file a verb; parse, call, print."""

from __future__ import annotations

import sys

from critiqor.cli.group import critiqor
from critiqor.cli.output import report_error


def main() -> None:
    """The `critiqor` command. No traceback reaches a user."""
    as_json = "--json" in sys.argv[1:]
    try:
        critiqor.main(prog_name="critiqor", standalone_mode=False)
    except Exception as error:
        sys.exit(report_error(error, as_json=as_json))
    except KeyboardInterrupt as interrupt:
        sys.exit(report_error(interrupt, as_json=as_json))
