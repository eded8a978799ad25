#!/usr/bin/env bash
# dist.sh BUILD: scripts/dist packs the programs of BUILD twice, the second time as on another
# machine: from another directory without git, with other file times, umask, time zone and language.
# Both results are equal. Then checks what is in them.
set -euo pipefail
cd "$(dirname "$0")/../.."
build=$(realpath "${1:-build/release}")
# shellcheck source=../chart/lib.sh
source tests/chart/lib.sh # WORK, expect, helm
version=$(sed -nE 's/^project\(tessera VERSION ([0-9.]+).*/\1/p' CMakeLists.txt)
arch=$(dpkg --print-architecture)
name=tessera-$version-linux-$arch
export SOURCE_DATE_EPOCH=1700000000

scripts/dist --no-build --build "$build" --out "$WORK/one" >"$WORK/log" 2>&1 || { cat "$WORK/log" && exit 1; }
mkdir "$WORK/checkout"
git ls-files -z --cached --others --exclude-standard -- scripts deploy sim CMakeLists.txt LICENSE CHANGELOG.md |
  xargs -0 cp --parents -t "$WORK/checkout"
(umask 077 && TZ=Asia/Tokyo LC_ALL=C.UTF-8 "$WORK/checkout/scripts/dist" --no-build --build "$build" --out "$WORK/two" >"$WORK/log" 2>&1) ||
  { cat "$WORK/log" && exit 1; }
cd "$WORK/one"
expect "two runs give equal files" "$(cat SHA256SUMS)" "$(cat "$WORK/two/SHA256SUMS")"
expect "the files of a release" "IMAGES
SHA256SUMS
krew-$version.tar.gz
kubectl-$name.tar.gz
$name.spdx.json
$name.tar.gz
tessera-chart-$version.tgz
tessera-image-$version-linux-$arch.tar
tessera.1" "$(printf '%s\n' * | LC_ALL=C sort)"
expect "SHA256SUMS has all other files" "$(find . -type f ! -name SHA256SUMS -printf '%P\n' | LC_ALL=C sort)" "$(sed 's/.*  //' SHA256SUMS)"
for run in one two; do
  expect "the checksums are right (run $run)" "" "$(cd "$WORK/$run" && sha256sum --check --quiet SHA256SUMS 2>&1)"
done
# The page names the files of version 0.1.0 for amd64.
page=$(sed -n '/^## From the files/,/^## No GPUs/p' "$CHART_ROOT/docs/install.md" | sed "s/0\.1\.0/$version/g; s/amd64/$arch/g")
expect "docs/install.md names the files of a release" "$(printf '%s\n' *.* | LC_ALL=C sort)" \
  "$(grep -oE "[a-z-]+-${version}[a-z0-9-]*\.(tar\.gz|tgz|tar|spdx\.json)|tessera\.1" <<<"$page" | LC_ALL=C sort -u)"
echo changed >>tessera.1
expect_match "a changed file is found" 'tessera.1: FAILED' "$(sha256sum --check --quiet SHA256SUMS 2>&1 || true)"

# The archive of the programs.
expect "all files of the archive belong to root and have the time of the release" "root/root 2023-11-14" \
  "$(TZ=UTC tar -tvzf "$name.tar.gz" | awk '{print $2, $4}' | sed 's,^0/0,root/root,' | sort -u)"
tar -C "$WORK" -xzf "$name.tar.gz"
cd "$WORK/$name"
expect "the archive has all programs of the build" "$(cd "$build/bin" && echo *)" "$(cd bin && echo *)"
for program in $(cd bin && echo *); do
  expect_match "$program runs from the archive" "$version" "$(PATH=$PWD/bin:$PATH "$program" --version 2>&1)"
done
expect_match "tessera needs no other file" 'ring +20 GB/s' "$(bin/tessera topo --machine dgx1v --count 4)"
bin/tessera-sim-machine --machine dgx1v --node gpu-a --dir "$WORK/machine" >/dev/null
expect "tessera-sim-machine finds the simulated driver of the archive" yes \
  "$([[ -n $(find "$WORK/machine" -name libnvidia-ml.so.1) ]] && echo yes)"
expect_match "the archive has the man page" '^\.TH TESSERA 1' "$(head -n 1 share/man/man1/tessera.1)"
expect "the archive has the examples" "$(cd "$CHART_ROOT/deploy/examples" && echo *)" "$(cd deploy/examples && echo *)"

# What the programs contain.
sbom=$WORK/one/$name.spdx.json
expect "the archive has the SBOM" "$(sha256sum <"$sbom")" "$(sha256sum <sbom.spdx.json)"
expect "the SBOM is SPDX 2.3, with the time of the release" "SPDX-2.3 2023-11-14T22:13:20Z" \
  "$(jq -r '"\(.spdxVersion) \(.creationInfo.created)"' "$sbom")"
# linked FILE: the names of the packages that the SBOM has as linked into it.
linked() {
  jq -r --arg file "./bin/$1" '(.files[] | select(.fileName == $file).SPDXID) as $id |
    [.relationships[] | select(.spdxElementId == $id and .relationshipType == "STATIC_LINK").relatedSpdxElement] as $ids |
    [.packages[] | select(.SPDXID | IN($ids[])).name] | join(" ")' "$sbom"
}
expect "the SBOM has what is linked into tessera" \
  "boost1.81 cli11 fmtlib gcc-12 glibc openssl simdjson spdlog tl-expected yaml-cpp" "$(linked tessera)"
expect "only the agent contains gRPC" tessera-agent \
  "$(cd bin && for p in tessera*; do [[ " $(linked "$p") " != *" grpc "* ]] || echo $p; done)"
# OpenSSL's default provider contains its version, as a text of its own.
openssl=$(jq -r '.packages[] | select(.name == "openssl").versionInfo' "$sbom")
expect "the SBOM has the version of OpenSSL that the program contains" "${openssl%%-*}" \
  "$(strings -a bin/tessera | grep -xF "${openssl%%-*}" | sort -u)"
expect "every package has version and licence" "" \
  "$(jq -r '.packages[] | select((.versionInfo // "") == "" or (.licenseDeclared // "") == "").name' "$sbom")"
expect "the licence of every linked package is in the archive" "" "$(jq -r '.packages[].name' "$sbom" | while read -r package; do
  [[ $package == libc6 || -s licences/$package ]] || echo "$package"
done)"
expect "relationships name only what exists" "" "$(jq -r '([.packages[].SPDXID, .files[].SPDXID, .SPDXID]) as $known |
  .relationships[] | .spdxElementId, .relatedSpdxElement | select(IN($known[]) | not)' "$sbom")"
expect "the checksums of the SBOM are those of the programs" "$(sha256sum bin/tessera-agent | cut -d' ' -f1)" \
  "$(jq -r '.files[] | select(.fileName == "./bin/tessera-agent").checksums[] | select(.algorithm == "SHA256").checksumValue' "$sbom")"

# The image: the digest in IMAGES is that of the manifest in the archive, and its programs are those
# of the other archive.
mkdir "$WORK/image" "$WORK/layer"
tar -C "$WORK/image" -xf "$WORK/one/tessera-image-$version-linux-$arch.tar"
digest=$(jq -r '.manifests[0].digest' "$WORK/image/index.json")
expect "IMAGES has the digest of the image" "$digest tessera-image-$version-linux-$arch.tar" "$(cat "$WORK/one/IMAGES")"
expect "the manifest has this digest" "$digest" "sha256:$(sha256sum "$WORK/image/blobs/sha256/${digest#sha256:}" | cut -d' ' -f1)"
expect "the image has the name that the chart uses" \
  "$(sed -nE 's/^  repository: (localhost\/[^ ]*).*/\1/p' "$CHART/values.yaml" | head -n 1):$version" \
  "$(jq -r '.manifests[0].annotations["io.containerd.image.name"]' "$WORK/image/index.json")"
layer=$(jq -r '.layers[0].digest' "$WORK/image/blobs/sha256/${digest#sha256:}")
tar -C "$WORK/layer" -xzf "$WORK/image/blobs/sha256/${layer#sha256:}"
expect "image and archive have the same programs" "$(cd bin && sha256sum -- *)" "$(cd "$WORK/layer/opt/tessera/bin" && sha256sum -- *)"

# krew.
mkdir "$WORK/krew"
tar -C "$WORK/krew" -xzf "$WORK/one/krew-$version.tar.gz"
expect_match "the krew manifests have the checksum of the archive" \
  "sha256: $(sha256sum "$WORK/one/kubectl-$name.tar.gz" | cut -d' ' -f1)" "$(cat "$WORK/krew/krew/tessera.yaml")"

# The chart, with helm if it is there.
expect "the chart has every file of the chart's directory" "$(cd "$CHART_ROOT" && git ls-files deploy/helm | sed 's,deploy/helm/,,' | sort)" \
  "$(tar -tzf "$WORK/one/tessera-chart-$version.tgz" | grep -v '/$' | sort)"
if [[ -x $(tool_path helm) ]]; then
  expect_match "helm lints the chart" '0 chart\(s\) failed' "$("$(tool_path helm)" lint "$WORK/one/tessera-chart-$version.tgz" \
    --set scheduler.image.repository=registry.example/kube-scheduler 2>&1)"
elif [[ ${TESSERA_REQUIRE_CLUSTER:-} == 1 ]]; then
  fail "helm lints the chart" "helm is not built"
fi
finish
