"""Interlock: an agent does exactly what its operator opened, and anyone can prove what it did."""

__version__ = "0.1.0"
