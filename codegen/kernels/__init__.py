"""Device source that an editor can open; the emitters only instantiate it."""
