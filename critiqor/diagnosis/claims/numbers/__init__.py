"""Numbers in an answer that a table, a time of day or the numbers beside them contradict."""
