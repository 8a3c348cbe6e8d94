"""Tools that the embedded loop offers to the model, and their arguments and results."""
