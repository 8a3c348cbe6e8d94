"""What verbs with --fleet list: the runs of all hosts, from the index of the settings."""
