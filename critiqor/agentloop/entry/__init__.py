"""Ways into the loop: the `agent` call, the local server and its client, one turn from the command line."""
