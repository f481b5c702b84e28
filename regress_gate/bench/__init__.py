"""Provisioning a version, starting its server, sending the workload, recording. Not for judging what was measured."""
