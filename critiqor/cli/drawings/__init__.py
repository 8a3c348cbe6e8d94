"""What each verb draws on a terminal; each module is named after its verb."""
