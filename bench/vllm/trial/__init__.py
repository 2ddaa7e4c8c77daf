"""What server_trial.py and gpu_features.py are made of: a model's files, servers, a client, checks, a table."""
