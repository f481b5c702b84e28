"""What was measured, kept: the user's store (a database), exported baselines (files), and the view over both.

Importing this package costs nothing; SQLAlchemy is imported by `repository` alone, Alembic only while migrating.
"""
