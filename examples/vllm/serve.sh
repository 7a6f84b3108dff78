#!/bin/sh
# Serve a model on GPUs, with routed experts, as envelopes for who asks: examples/vllm/serve.sh MODEL [options of vllm serve]
# The environment needs vLLM 0.22 or newer, and ndwire with its extra asgi.
set -eu
exec vllm serve "$@" --enable-return-routed-experts --middleware ndwire_asgi.vllm.VLLMMiddleware
