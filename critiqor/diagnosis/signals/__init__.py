"""What can be read from a text, a tool name, a number or a redaction mark without understanding it."""
