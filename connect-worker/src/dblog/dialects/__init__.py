"""The differences between source databases, one package per dialect. Files with one purpose have
the same name in each package.
"""
