"""Space that runs take: remove runs by the rules of a retention, and journals that the sealed evidence replaces."""
