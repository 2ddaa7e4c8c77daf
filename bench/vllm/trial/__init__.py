"""Parts of server_trial.py and gpu_features.py: model files, servers, a client, checks, a table."""
