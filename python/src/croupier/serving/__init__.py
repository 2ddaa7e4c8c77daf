"""What the plugins of all engines share: an engine's daemon, stand-in, options and parameters.

Nothing here imports an engine. The plugins are croupier.vllm and croupier.sglang.
"""
