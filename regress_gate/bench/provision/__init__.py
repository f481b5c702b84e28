"""Provisioning: from a version to something that can serve it. One module per way; `interface` holds what they share.

Not for starting servers, and never for judging: a version that cannot be installed could not be measured.
"""
