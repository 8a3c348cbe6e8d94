"""Entry points: the agent runtime, the local server and its client, a single run, a chat, scheduled runs, subagents."""
