"""How calls ended after all: repaired, shown otherwise by a later look, or with items left out."""
