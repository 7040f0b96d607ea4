"""What a run is judged by, and what it cost."""
