"""Ways to make a check pass without the thing it checks: in changed texts, in command lines, and in counts of tests."""
