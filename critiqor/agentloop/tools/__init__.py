"""Tools that the embedded loop offers to a model."""
