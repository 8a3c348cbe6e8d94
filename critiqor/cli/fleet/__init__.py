"""What verbs do with runs of many machines: --fleet of the verbs that list."""
