"""What goes back to the user: replies, block streaming, delivery, the result of a run."""
