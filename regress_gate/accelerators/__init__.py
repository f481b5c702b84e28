"""Accelerators: their names, their families and what each family needs of the tool."""
