"""The local web application that shows recorded runs and their diagnoses."""
