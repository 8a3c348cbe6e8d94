"""The local web application: what a person looks at after a run."""
