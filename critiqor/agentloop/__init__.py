"""An embedded agent loop by the contract of OpenClaw: intake, context, model, tools, replies, persistence."""
