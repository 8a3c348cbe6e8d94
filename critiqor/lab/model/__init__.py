"""The scripted model: an OpenAI-compatible server that plays scripts."""
