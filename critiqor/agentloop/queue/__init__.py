"""Queueing of runs: session lanes and global lanes, queue modes, dispatch, stuck sessions."""
