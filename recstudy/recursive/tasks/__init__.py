"""What a network predicts, and how answers are scored: classes, findings, cells, captions, pairs.

Importing this package loads neither numpy nor torch.
"""
