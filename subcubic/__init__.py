"""The roof: the command line that wires the stages and owns files, printing and run folders."""
