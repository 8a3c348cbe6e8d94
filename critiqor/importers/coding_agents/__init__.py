"""Transcripts of coding agents: Claude Code and Codex, in the shapes that their versions write."""
