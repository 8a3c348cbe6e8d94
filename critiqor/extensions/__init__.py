"""Extensions: detectors, exporters and importers of other packages, found by their entry points."""
