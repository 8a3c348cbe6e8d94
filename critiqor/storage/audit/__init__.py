"""What recorders and the monitor say about records, compared with the journal: which are lost, changed or added."""
