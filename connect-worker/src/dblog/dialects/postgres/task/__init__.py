"""What a source task needs of PostgreSQL: the contract of readers/contract.py fulfilled."""
