"""Renderers: one output format a module. All cleaning and escaping happens here."""
