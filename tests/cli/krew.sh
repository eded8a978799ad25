#!/usr/bin/env bash
# The krew manifests contain the checksum of the archive, and the archive contains the installed
# files.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/bin"
echo program >"$work/bin/tessera"
tar -C "$work" -czf "$work/kubectl-tessera.tar.gz" bin/tessera
"$root/scripts/krew-manifests" "$work/kubectl-tessera.tar.gz" https://example.invalid/t.tar.gz "$work/krew"
sum=$(sha256sum "$work/kubectl-tessera.tar.gz" | cut -d' ' -f1)
for name in tessera inspect-gpushare inspect-gpu; do
  grep -qx "  name: $name" "$work/krew/$name.yaml"
  grep -qx "      sha256: $sum" "$work/krew/$name.yaml"
  grep -qx "      uri: https://example.invalid/t.tar.gz" "$work/krew/$name.yaml"
done
tar -C "$work" -czf "$work/empty.tar.gz" krew
if "$root/scripts/krew-manifests" "$work/empty.tar.gz" u "$work/other" 2>"$work/said"; then
  echo "krew-manifests accepted an archive without bin/tessera" && exit 1
fi
grep -q "has no bin/tessera" "$work/said"
