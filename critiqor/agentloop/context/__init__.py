"""Context of a model call: workspace, bootstrap files, skills, system prompt, token budget, compaction."""
