# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # the library is loaded as a whole: names set here are read there
# Builds container images on this machine: busybox and pause for every cluster, and any folder.
# Sourced.

BUSYBOX_IMAGE=tessera.local/busybox:1
PAUSE_IMAGE=tessera.local/pause:1

# make_image NAME[,NAME...] ROOT OUT [ENTRYPOINT...]: writes an image archive in the format of
# `docker save`, whose only layer is the folder ROOT. Equal input gives equal bytes. IMAGE_ENV="A=b
# C=d" is added to its environment.
make_image() {
  local name=$1 root=$2 out=$3 work layer
  shift 3
  work=$(mktemp -d "${out%/*}/.image.XXXXXX")
  tar -C "$root" --sort=name --owner=0 --group=0 --numeric-owner --mtime=@0 -cf "$work/layer.tar" .
  layer=$(sha256sum "$work/layer.tar")
  jq -n --arg layer "sha256:${layer%% *}" --arg arch "$(image_architecture)" --arg env "${IMAGE_ENV:-}" '{
    architecture: $arch, os: "linux", created: "1970-01-01T00:00:00Z",
    config: {Entrypoint: (if $ARGS.positional == [] then null else $ARGS.positional end),
             Env: (["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"] + ($env | split(" ") | map(select(. != "")))),
             WorkingDir: "/"},
    rootfs: {type: "layers", diff_ids: [$layer]}, history: []}' --args -- "$@" >"$work/config.json"
  jq -n --arg name "$name" '[{Config: "config.json", RepoTags: ($name | split(",")), Layers: ["layer.tar"]}]' >"$work/manifest.json"
  tar -C "$work" --sort=name --owner=0 --group=0 --numeric-owner --mtime=@0 -cf "$work/image.tar" \
    config.json layer.tar manifest.json
  mv "$work/image.tar" "$out"
  rm -rf "$work"
}

image_architecture() {
  case $(uname -m) in
    aarch64) printf arm64 ;;
    *) printf amd64 ;;
  esac
}

# base_images: prints the archives of busybox and pause, one per line; builds them at first use and
# keeps them in the cache.
base_images() {
  local hash out work program
  hash=$({
    sha256sum <"$(command -v busybox)"
    cat "$CLUSTER_DIR/images/pause.c" "$CLUSTER_DIR/lib/images.sh"
  } | sha256sum)
  out=$TESSERA_CACHE/images/${hash:0:12}
  if [[ ! -d $out ]]; then
    mkdir -p "$TESSERA_CACHE/images"
    work=$(mktemp -d "$TESSERA_CACHE/images/.making.XXXXXX")
    mkdir -p "$work"/{pause,busybox/{bin,etc,root,tmp,var,dev,proc,sys},out}
    gcc -static -Os -s -o "$work/pause/pause" "$CLUSTER_DIR/images/pause.c"
    make_image "$PAUSE_IMAGE" "$work/pause" "$work/out/pause.tar" /pause
    cp "$(command -v busybox)" "$work/busybox/bin/busybox"
    for program in $(busybox --list); do
      [[ $program == busybox ]] || ln -s busybox "$work/busybox/bin/$program"
    done
    chmod 1777 "$work/busybox/tmp"
    echo 'root:x:0:0:root:/root:/bin/sh' >"$work/busybox/etc/passwd"
    echo 'root:x:0:' >"$work/busybox/etc/group"
    # Also under the name that deploy/examples use, so that these run unchanged without a registry.
    make_image "$BUSYBOX_IMAGE,busybox:1" "$work/busybox" "$work/out/busybox.tar"
    mv -T "$work/out" "$out" 2>/dev/null || [[ -d $out ]] # another cluster may have been faster
    rm -rf "$work"
  fi
  printf '%s\n' "$out/pause.tar" "$out/busybox.tar"
}

# import_images NODE FILE...: loads archives into the node's containerd. The file is opened outside,
# because the node may have another file at the same path.
import_images() {
  local node=$1 file out
  shift
  for file; do
    out=$(in_cluster "$node" ctr --namespace k8s.io images import --snapshotter "$(node_snapshotter "$node")" - <"$file" 2>&1) ||
      { warn "$out" && return 1; }
  done
}

node_snapshotter() { sed -n 's/^ *snapshotter = "\(.*\)"/\1/p' "$(node_dir "$1")/containerd.toml"; }
