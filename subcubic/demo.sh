# The main job on embedded defaults: search a base case, prove it, store it, export its kernel, evaluate it.
# Called by `make demo` with the folder to work in; $PYTHON is the interpreter, perhaps with assignments before it.
set -eu
folder=${1:?the folder to work in}
export SUBCUBIC_CATALOG="$folder/catalog" SUBCUBIC_RUNS="$folder/runs"
mkdir -p "$folder"

step() {
    echo
    echo "\$ subcubic $*"
    env $PYTHON -m subcubic "$@"
}

echo "== 1. search: base cases 2x2x2 and 3x3x3 over the integers"
step search 2x2x2 --seed 1 --budget 60s
step search 3x3x3 --seed 1 --budget 60s
echo
echo "== 2. prove: exact Brent equations, then an independent symbolic proof"
step catalog verify 2x2x2 --symbolic
step catalog verify 3x3x3 --symbolic
echo
echo "== 3. shelve: the catalog with the gap to the best known ranks"
step catalog list
echo
echo "== 4. export: one self-contained CUDA file and its C twin"
step export 2x2x2 --to cuda --dtype fp32 -o "$folder"
step export 2x2x2 --to c --dtype fp64 -o "$folder"
echo
echo "== 5. evaluate: speed and error against the vendor's GEMM, on the GPU if there is one, else on the CPU"
step bench 2x2x2 --quick --out "$folder"
echo
echo "demo finished: see $folder (catalog, exported sources, measured results)"
