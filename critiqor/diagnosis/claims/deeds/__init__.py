"""What an agent says it has done or looked at, against what its calls can have done."""
