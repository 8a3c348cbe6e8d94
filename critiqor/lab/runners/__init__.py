"""Running a scenario on the embedded loop or on a real OpenClaw, in a sandbox, with injected faults."""
