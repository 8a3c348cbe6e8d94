"""Embedded agent loop that follows OpenClaw's contract: intake, context, model calls, tools, replies, transcripts."""
