"""From events to spans: agent runs, turns, model calls and tool calls. Starts are paired with ends only here."""
