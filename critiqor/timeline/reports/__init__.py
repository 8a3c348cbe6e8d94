"""Reports on timing for people: one timeline, two compared runs, or a repeated run; and their layout and formatting."""
