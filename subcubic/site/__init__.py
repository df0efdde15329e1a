"""The catalog as a folder of static pages: ``subcubic catalog site``."""
