"""How fast is it, how wrong is it, when does it pay."""
