"""Output to the user: streamed text, chat messages, block streaming, replies and their delivery."""
