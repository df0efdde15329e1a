"""Scheme -> Plan -> source text -> binary."""
