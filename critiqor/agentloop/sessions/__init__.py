"""Sessions on disk: session store, transcripts, write locks, messages."""
