"""Alerts about findings: settings, an outbox on disk, and delivery to webhooks, chats, commands and the terminal."""
