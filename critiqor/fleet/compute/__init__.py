"""Computing over the runs of a store: which runs, on which workers, and what a new diagnosis of them changes."""
