"""Playing one scenario: its sandbox, its faults, and the runners for the embedded loop and a real OpenClaw."""
