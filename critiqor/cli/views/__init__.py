"""Terminal drawings; a view has the name of its verb."""
