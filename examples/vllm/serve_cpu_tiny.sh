#!/bin/sh
# Serve a tiny random-weight model on the CPU: examples/vllm/serve_cpu_tiny.sh ENVIRONMENT PORT [more options]
# ENVIRONMENT is what examples/vllm/install_cpu.py made. Add --middleware ndwire_asgi.vllm.VLLMMiddleware for envelopes.
set -eu
environment=$1
port=$2
shift 2
model=$environment/tiny-qwen3-moe
"$environment/bin/python" "$(dirname "$0")/tiny_model.py" "$model"
export HF_HUB_OFFLINE=1 VLLM_CPU_KVCACHE_SPACE=1 VLLM_CPU_OMP_THREADS_BIND=nobind
PATH=$environment/bin:$PATH
export PATH
exec vllm serve "$model" --served-model-name tiny --host 127.0.0.1 --port "$port" \
    --load-format dummy --skip-tokenizer-init --enforce-eager --dtype bfloat16 --max-model-len 2048 \
    --generation-config vllm --tokens-only --enable-return-routed-experts "$@"
