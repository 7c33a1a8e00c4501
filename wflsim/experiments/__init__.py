"""Many regimes of one scenario, and one training for all that learn alike."""
