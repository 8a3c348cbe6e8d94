"""Which message runs when: lanes, inbox, dispatch, commands, watchdogs of sessions."""
