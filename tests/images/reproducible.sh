#!/usr/bin/env bash
# reproducible.sh BIN: two images built from equal programs are identical, need nothing from outside
# to run, and describe themselves correctly.
set -euo pipefail
cd "$(dirname "$0")/../.."
bin=$(realpath "${1:-build/release/bin}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0
failed=0
check() { # what, wanted, got
  if [ "$2" = "$3" ]; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    printf 'FAILED: %s\n  wanted: %s\n  got:    %s\n' "$1" "$2" "$3"
  fi
}

# The second image is built as on another machine: other times, another umask. linked.json has the
# libraries in the programs, of which the image has the licences.
scripts/images build --bin "$bin" --out "$work/one" --tag test
cp -r "$(dirname "$bin")/lib" "$work/lib"
cp -a "$bin" "$work/bin"
touch -d 2001-01-01 "$work"/bin/* "$work"/lib/*
if [ -d "$(dirname "$bin")/maps" ]; then
  mkdir "$work/maps"
  cp "$(dirname "$bin")/linked.json" "$work/"
fi
(umask 077 && scripts/images build --bin "$work/bin" --out "$work/two" --tag test)

digest() { jq -r '.manifests[0].digest' "$work/$1/oci/index.json"; }
sum() { sha256sum <"$1"; }
check "two builds have one digest" "$(digest one)" "$(digest two)"
check "two builds have equal archives" "$(sum "$work/one/tessera-test.tar")" "$(sum "$work/two/tessera-test.tar")"

blob() { echo "$work/one/oci/blobs/sha256/${1#sha256:}"; }
manifest=$(blob "$(digest one)")
config=$(blob "$(jq -r .config.digest "$manifest")")
layer=$(blob "$(jq -r '.layers[0].digest' "$manifest")")
for file in "$work"/one/oci/blobs/sha256/*; do
  check "a blob has the digest it is named by" "${file##*/}" "$(sha256sum "$file" | cut -d' ' -f1)"
done
check "the manifest has the real sizes" "$(stat -c %s "$layer") $(stat -c %s "$config")" \
  "$(jq -r '"\(.layers[0].size) \(.config.size)"' "$manifest")"
check "the configuration has the digest of the layer" "$(jq -r '.rootfs.diff_ids[0]' "$config")" \
  "sha256:$(gzip -dc "$layer" | sha256sum | cut -d' ' -f1)"
check "programs do not run as root by default" 65532:65532 "$(jq -r .config.User "$config")"
check "the image is at most 32 MiB to download" yes "$([ "$(stat -c %s "$layer")" -le $((32 << 20)) ] && echo yes || echo no)"

root=$work/root
mkdir "$root"
tar -C "$root" -xzf "$layer"
libraries=$(cd "$root/usr/lib/$(gcc -dumpmachine)" && echo *)
# NVIDIA's libnvidia-ml.so.1 needs these. The simulated one does not, so running it would not show
# that one is missing.
for name in libc.so.6 libm.so.6 libdl.so.2 libpthread.so.0 librt.so.1 libgcc_s.so.1; do
  check "$name is in the image" yes "$([[ " $libraries " == *" $name "* ]] && echo yes || echo "no: $libraries")"
done
check "the simulated driver is not in a default library directory" "" \
  "$(find "$root/usr" "$root/lib" "$root/lib64" -name 'libnvidia-ml*')"

if [ "$(id -u)" -eq 0 ]; then
  inside() { chroot "$root" "$@" 2>&1 || echo "ended with $?"; }
  for program in "$root"/opt/tessera/bin/tessera*; do
    name=${program##*/}
    check "$name runs inside" yes "$(inside "/opt/tessera/bin/$name" --version | grep -q '[0-9]\.[0-9]' && echo yes || inside "/opt/tessera/bin/$name" --version)"
  done
  mkdir -p "$root/proc"
  mount --bind /proc "$root/proc"
  trap 'umount "$root/proc"; rm -rf "$work"' EXIT
  inside /opt/tessera/bin/tessera-sim-machine --machine dgx1v --node gpu-a --dir /tmp/gpu-a >/dev/null
  check "the image can create a simulated machine" yes "$([ -e "$root/tmp/gpu-a/dev/nvidia7" ] && echo yes || echo no)"
fi
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
