#!/bin/sh
# Run the demo's client against vLLM on the CPU, with the middleware and without: examples/vllm/check_cpu.sh ENVIRONMENT PYTHON
# PYTHON is that of an environment with the client's packages.
set -eu
environment=$1
python=$2
here=$(dirname "$0")
port=$("$python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
rm -f "$environment/digests.txt"
for options in "--middleware ndwire_asgi.vllm.VLLMMiddleware" ""; do
    echo "vLLM, options: ${options:-none}"
    # shellcheck disable=SC2086 # two words, or none
    "$here/serve_cpu_tiny.sh" "$environment" "$port" $options >"$environment/server.log" 2>&1 &
    server=$!
    trap 'kill $server 2>/dev/null || true' EXIT
    tries=0
    until "$python" -c "import urllib.request as r; r.urlopen('http://127.0.0.1:$port/health', timeout=5)" 2>/dev/null; do
        tries=$((tries + 1))
        if [ $tries -gt 180 ] || ! kill -0 $server 2>/dev/null; then
            tail -40 "$environment/server.log"
            echo "the server did not start; see $environment/server.log"
            exit 1
        fi
        sleep 1
    done
    "$python" -m examples.vllm.demo --url "http://127.0.0.1:$port" --tokens 200 | tee "$environment/demo.txt"
    grep -q "Every number is right" "$environment/demo.txt"
    grep "^digest" "$environment/demo.txt" >>"$environment/digests.txt"
    kill $server
    wait $server 2>/dev/null || true
done
if [ "$(sort -u "$environment/digests.txt" | wc -l)" -ne 1 ]; then
    echo "the routed experts with the middleware and without differ"
    exit 1
fi
echo "The routed experts with the middleware are those without it."
