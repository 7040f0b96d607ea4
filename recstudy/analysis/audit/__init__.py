"""What a careful reviewer would ask of a study: rules over its records."""
