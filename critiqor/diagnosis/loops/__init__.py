"""What is repeated without progress: identical calls, cycles, searches that find nothing new, failures of one cause."""
