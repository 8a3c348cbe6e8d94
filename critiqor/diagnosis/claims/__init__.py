"""What an agent asserts about its own work."""
