"""Model calls: selection, client, HTTP, streaming, retries, failures."""
