"""Recording an agent: launch and supervise it, attach to a running one, sample resources, stop it."""
