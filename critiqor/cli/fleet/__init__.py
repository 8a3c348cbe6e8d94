"""What verbs with --fleet list: the runs of all hosts, from the index and the store of the settings."""
