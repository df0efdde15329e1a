"""From F2 and F3 to the integers and rationals."""
