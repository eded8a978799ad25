# Prints one line for each disagreement (see disagreements in lib.sh). Fails if there is nothing to
# compare.
def tag: ltrimstr("GPU-")[0:8];
def counted: group_by(.) | map({(.[0]): length}) | add // {};

[$pods[0].items[] | select(.status.phase == "Running" and .metadata.annotations["tessera.io/allocation"])] as $running |
(if $running == [] then error("no running pod has a record") else . end) |
(if ($checkpoint | length) != $nodes then error("\($checkpoint | length) checkpoints of \($nodes) kubelets") else . end) |
($seen | add) as $seen |
[$running[].metadata.uid] as $uids |
[$checkpoint[] | (.Data.PodDeviceEntries // [])[] | select(.PodUID | IN($uids[])) |
 {uid: .PodUID, container: .ContainerName, resource: .ResourceName, ids: [.DeviceIDs[][]]}] as $allocated |
def ids($uid; $container; $suffix):
  [$allocated[] | select(.uid == $uid and .container == $container and (.resource | endswith($suffix))) | .ids[]];

($running[] | . as $pod | .metadata.name as $name | .metadata.uid as $uid |
  (.metadata.annotations["tessera.io/allocation"] | fromjson | .containers | to_entries[]) |
  .key as $container | .value as $record_shares | "\($name)/\($container)" as $who |
  ([$record_shares[].gpu] | sort) as $recorded |
  (if ($seen[$who] | split(",") | sort) != $recorded then
     "\($who) sees \($seen[$who]), its record has \($recorded | join(","))" else empty end),
  # kubelet reuses the IDs of init containers at random, so pods with init containers are skipped.
  (if ($pod.spec.initContainers // []) | length == 0 then
    ([$record_shares[] | select(.whole | not) | {(.gpu | tag): .mem}] | add // {}) as $shares |
    (ids($uid; $container; "/gpu-mem") | map(split("-")[0]) | counted) as $has |
    (if $has != $shares then "\($who) has IDs \($has), its record has \($shares)" else empty end),
    ([$record_shares[] | select(.whole) | .gpu | tag] | sort) as $whole |
    (ids($uid; $container; "/gpu") + ids($uid; $container; "/gpu-count") | sort) as $got |
    (if $got != $whole then "\($who) has whole GPUs \($got), its record has \($whole)" else empty end)
   else empty end)),
([$allocated[] | .uid as $uid | .resource as $resource | .ids[] | {id: "\($resource) \(.)", uid: $uid}] |
 group_by(.id)[] | (map(.uid) | unique) as $holders | select($holders | length > 1) | "\(.[0].id) is held by \($holders)")
