"""What each verb draws on a terminal; a view has the name of its verb."""
