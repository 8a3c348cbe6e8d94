"""What each verb draws on a terminal; a drawing has the name of its verb."""
