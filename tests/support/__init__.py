"""What several files of tests share."""
