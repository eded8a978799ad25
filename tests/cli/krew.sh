#!/usr/bin/env bash
# The krew manifests contain the checksum of each archive, and each archive contains the installed
# files.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/bin"
echo licence >"$work/LICENSE"
for arch in amd64 arm64; do
  echo "program for $arch" >"$work/bin/tessera"
  tar -C "$work" -czf "$work/kubectl-tessera-1-linux-$arch.tar.gz" bin/tessera LICENSE
done
"$root/scripts/krew-manifests" "$work/krew" https://example.invalid/v1 "$work"/kubectl-*.tar.gz
for name in tessera inspect-gpushare inspect-gpu; do
  manifest=$work/krew/$name.yaml
  grep -qx "  name: $name" "$manifest"
  for arch in amd64 arm64; do
    archive=kubectl-tessera-1-linux-$arch.tar.gz
    # The entry of this architecture has the address and the checksum of its archive.
    grep -A 2 -xF "        matchLabels: {os: linux, arch: $arch}" "$manifest" >"$work/entry"
    grep -qxF "      uri: https://example.invalid/v1/$archive" "$work/entry"
    grep -qxF "      sha256: $(sha256sum "$work/$archive" | cut -d' ' -f1)" "$work/entry"
  done
  [ "$(grep -c selector "$manifest")" -eq 2 ]
done
tar -C "$work" -czf "$work/empty-linux-amd64.tar.gz" krew
if "$root/scripts/krew-manifests" "$work/other" u "$work/empty-linux-amd64.tar.gz" 2>"$work/said"; then
  echo "krew-manifests accepted an archive without bin/tessera" && exit 1
fi
grep -q "has no bin/tessera" "$work/said"
