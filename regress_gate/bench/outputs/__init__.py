"""Asks a server a fixed set of prompts and keeps what it answers, for the gate to compare. Not for timing anything."""
