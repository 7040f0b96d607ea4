"""How a run is trained: one loop in plain torch, and the worker that runs it inside Ray."""
