"""What model calls cost: the reported price, the list price of the model, or nothing on a local provider."""
