"""The report: one offline HTML page that shows everything a run has, and says what it has not."""
