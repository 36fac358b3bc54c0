"""What differs between source databases: one package a dialect, the same file names in each."""
