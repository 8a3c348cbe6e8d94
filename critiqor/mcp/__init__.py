"""MCP server: recorded runs as read-only tools for agents and assistants, with bounded answers."""
