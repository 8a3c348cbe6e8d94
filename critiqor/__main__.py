"""`python -m critiqor`."""

from critiqor.cli import main

main()
