#!/bin/sh
# installed.sh FOLDER PYTHON: is the package whole? Builds the sdist, and the wheel from it; installs the wheel in a new
# environment in FOLDER, which is emptied first; gives the commands of README.md in an empty folder, as they stand there;
# and runs some tests in the unpacked sdist. Long commands get --smoke or fewer epochs.
set -eu
tree=$(cd "$(dirname "$0")/.." && pwd)
rm -rf "$1"
mkdir -p "$1/work/my-data"
folder=$(cd "$1" && pwd)
unset PYTHONPATH JAXMATCH_DATA
export XDG_CACHE_HOME="$folder/cache" PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_QUIET=2

run() {
    echo "\$ $1"
    sh -ec "$1"
}

echo "building the sdist and the wheel"
"$tree/.ci/environment" "$2" "$folder/build"
"$folder/build/bin/python" -m pip install build
# From a copy: setuptools would add the files that an earlier build in the tree has listed.
mkdir "$folder/tree"
(cd "$tree" && git ls-files -z --cached --others --exclude-standard | tar --null -cf - -T -) | tar -xf - -C "$folder/tree"
"$folder/build/bin/python" -m build --outdir "$folder/dist" "$folder/tree" >"$folder/build.log" 2>&1 ||
    { cat "$folder/build.log" >&2; exit 1; }

echo "installing the wheel into an environment of its own"
"$tree/.ci/environment" "$2" "$folder/environment"
PATH="$folder/environment/bin:$PATH"
cd "$folder/work"
pip install "$folder"/dist/jaxmatch-*.whl
run "jaxmatch devices"
run "jaxmatch configs"
run "jaxmatch configs quickstart --copy"
run "jaxmatch sweep quickstart.py --dry-run"
rm quickstart.py

# The user's files that the commands name: those of the README, with a few pairs.
for split in train dev test; do
    printf 'text_a\ttext_b\tlabel\n' >my-data/$split.tsv
    for place in park house street; do
        printf 'A man sleeps in the %s.\tNobody is awake in the %s.\tneutral\n' $place $split
        printf 'A dog runs in the %s.\tAn animal moves in the %s.\tentailment\n' $place $split
    done >>my-data/$split.tsv
done
printf 'text_a\ttext_b\nA cat sleeps.\tNobody is awake.\n' >pairs.tsv
sed -n '/^```sh$/,/^```$/{/^```/!p}' "$tree/README.md" >commands
[ "$(grep -c '^jaxmatch ' commands)" -ge 3 ] || { echo "the README has too few commands" >&2; exit 1; }
while read -r line <&3; do
    case $line in
        *--dry-run*) ;;
        "jaxmatch sweep "*) line="$line --smoke" ;;
        "jaxmatch train "*) line="$line --epochs 2" ;;
    esac
    run "$line"
done 3<commands
sed -n '/^```python$/,/^```$/{/^```/!p}' "$tree/README.md" >example.py
run "python example.py"
# An extra is added to what is installed, wherever that came from.
run "pip install 'jaxmatch[search]'"
printf 'A man sleeps.\nA dog runs.\n' >texts.txt
run "jaxmatch search runs/own --best --texts texts.txt --query 'who sleeps' --prefilter bm25"

echo "running tests of the sdist"
pip install pytest hypothesis
mkdir "$folder/sdist"
tar -xzf "$folder"/dist/jaxmatch-*.tar.gz -C "$folder/sdist" --strip-components 1
cd "$folder/sdist"
python -m pytest -q -p no:cacheprovider tests/test_batches.py tests/test_packaging.py tests/test_named_files.py tests/test_readers.py
echo "the package is whole: $(ls "$folder"/dist | tr '\n' ' ')"
