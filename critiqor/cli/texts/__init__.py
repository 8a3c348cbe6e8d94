"""Plain text that verbs print where nothing is drawn; a module has the name of its verb.

Drawings use the same sentences and figures.
"""
