"""Products with few rows: the kernel, its tiles, measurements against the vendor, and when a call is worth one."""
