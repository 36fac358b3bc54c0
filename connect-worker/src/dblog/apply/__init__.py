"""``dblog connectors``: keeps the connectors of a worker equal to files, using only its
REST API.
"""
