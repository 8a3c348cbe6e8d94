"""Sessions on disk: the store, transcripts, write locks, messages."""
