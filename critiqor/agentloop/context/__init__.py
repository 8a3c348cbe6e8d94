"""What the model is given: workspace, bootstrap files, skills, system prompt, budget, compaction."""
