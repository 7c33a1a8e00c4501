"""wflsim: a wireless-aware federated-learning system simulator."""
