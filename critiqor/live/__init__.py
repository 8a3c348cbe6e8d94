"""Diagnosis of a recording in progress: verdicts per session, announcements of findings, limits, and the guard."""
