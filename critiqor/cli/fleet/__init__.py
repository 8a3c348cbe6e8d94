"""The fleet in the command line: what verbs with --fleet list from the index, and pushing runs in the background."""
