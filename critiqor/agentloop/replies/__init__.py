"""Output to the user: streamed text, chat messages, block streaming, replies, their delivery and channels."""
