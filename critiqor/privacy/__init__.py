"""Visibility of runs, and anonymized views of them: structure and numbers, no names, paths or texts.

Anonymized objects are built from what may be shown, instead of removing what may not: a field that is added later stays
hidden until it is allowed here. Names are kept where they belong to a vocabulary that all runs share. A name that a
user, an agent or a plugin chose could identify the run.
"""
