"""The execution of one agent run: turns, tool calls, limits and the result."""
