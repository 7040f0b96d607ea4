"""Figures of the recursive models: what they attend to, how they think, and what they answer."""
