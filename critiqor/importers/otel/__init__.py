"""OpenTelemetry spans, in any exported form and convention: each trace is one run."""
