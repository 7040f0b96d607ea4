"""Figures: from records to the frame behind a picture, and from that to Plotly; one look for all of them."""
