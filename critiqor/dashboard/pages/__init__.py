"""Pages of the dashboard: one class per page or group of pages."""
