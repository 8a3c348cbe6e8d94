"""Tests of agents: a plugin for pytest that records an agent run, and assertions on its diagnosis."""
