"""The doors that speak OpenAI's protocol: `/v1/chat/completions`, `/v1/models`, `/v1/embeddings`.

Chat models of the gateway answer here under our keys, quotas and records; a base, or several, answer as a model.
"""
