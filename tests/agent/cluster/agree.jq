# What does not agree, a line each: see disagreements in lib.sh.
def tag: ltrimstr("GPU-")[0:8];
def counted: group_by(.) | map({(.[0]): length}) | add // {};

[$pods[0].items[] | select(.status.phase == "Running" and .metadata.annotations["tessera.io/allocation"])] as $running |
[$running[].metadata.uid] as $uids |
[$checkpoint[] | (.Data.PodDeviceEntries // [])[] | select(.PodUID | IN($uids[])) |
 {uid: .PodUID, container: .ContainerName, resource: .ResourceName, ids: [.DeviceIDs[][]]}] as $given |
def ids($uid; $container; $suffix):
  [$given[] | select(.uid == $uid and .container == $container and (.resource | endswith($suffix))) | .ids[]];

($running[] | . as $pod | .metadata.name as $name | .metadata.uid as $uid |
  (.metadata.annotations["tessera.io/allocation"] | fromjson | .containers | to_entries[]) |
  .key as $container | .value as $grants | "\($name)/\($container)" as $who |
  ([$grants[].gpu] | sort) as $decided |
  (if ($seen[0][$who] | split(",") | sort) != $decided then
     "\($who) sees \($seen[0][$who]), decided is \($decided | join(","))" else empty end),
  # Where there are init containers, kubelet hands their IDs on at random.
  (if ($pod.spec.initContainers // []) | length == 0 then
    ([$grants[] | select(.whole | not) | {(.gpu | tag): .mem}] | add // {}) as $shares |
    (ids($uid; $container; "/gpu-mem") | map(split("-")[0]) | counted) as $has |
    (if $has != $shares then "\($who) has IDs \($has), decided is \($shares)" else empty end),
    ([$grants[] | select(.whole) | .gpu | tag] | sort) as $whole |
    (ids($uid; $container; "/gpu") + ids($uid; $container; "/gpu-count") | sort) as $got |
    (if $got != $whole then "\($who) has whole GPUs \($got), decided is \($whole)" else empty end)
   else empty end)),
([$given[] | .uid as $uid | .resource as $resource | .ids[] | {id: "\($resource) \(.)", uid: $uid}] |
 group_by(.id)[] | (map(.uid) | unique) as $holders | select($holders | length > 1) | "\(.[0].id) is held by \($holders)")
