"""Measured runs: the user's store (a database), exported baselines (files), and one view of both.

Importing this package is cheap: only `repository` and the modules below it import SQLAlchemy, and only a migration
imports Alembic.
"""
