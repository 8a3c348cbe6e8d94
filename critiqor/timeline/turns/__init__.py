"""Where the time of each turn and of each start-up went."""
