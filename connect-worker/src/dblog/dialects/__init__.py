"""What differs between source databases: one package a dialect. Files that fulfil one purpose have one name in each."""
