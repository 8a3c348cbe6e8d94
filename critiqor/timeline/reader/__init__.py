"""From the lines of a timeline file to records, with every kind of damage handled."""
