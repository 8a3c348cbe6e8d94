"""Hazards: what an agent did that it should not have done, judged from calls and results of one episode."""
