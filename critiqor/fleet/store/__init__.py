"""The object store: sealed runs as bundles and manifests, later diagnoses, and the outbox of what is to be stored."""
