"""One class per page or group of pages."""
