# What does not agree, a line each: see disagreements in lib.sh.
def tag: ltrimstr("GPU-")[0:8];
def ids($container; $suffix):
  [(.status.containerStatuses // [])[] | select(.name == $container) | (.allocatedResourcesStatus // [])[] |
   select(.name | endswith($suffix)) | .resources[].resourceID];
def counted: group_by(.) | map({(.[0]): length}) | add // {};

[$pods[0].items[] | select(.status.phase == "Running" and .metadata.annotations["tessera.io/allocation"])] as $running |
($running[] | . as $pod | .metadata.name as $name |
  (.metadata.annotations["tessera.io/allocation"] | fromjson | .containers | to_entries[]) |
  .key as $container | .value as $grants | "\($name)/\($container)" as $who |
  ([$grants[].gpu] | sort) as $decided |
  (if ($seen[0][$who] | split(",") | sort) != $decided then
     "\($who) sees \($seen[0][$who]), decided is \($decided | join(","))" else empty end),
  # Init containers that have ended are not told; one with other containers hands its IDs on at random.
  (if ($pod.spec.containers | any(.name == $container)) and (($pod.spec.initContainers // []) | length == 0) then
    ([$grants[] | select(.whole | not) | {(.gpu | tag): .mem}] | add // {}) as $shares |
    ($pod | ids($container; "/gpu-mem") | map(split("-")[0]) | counted) as $given |
    (if $given != $shares then "\($who) has IDs \($given), decided is \($shares)" else empty end),
    ([$grants[] | select(.whole) | .gpu | tag] | sort) as $whole |
    (($pod | ids($container; "/gpu")) + ($pod | ids($container; "/gpu-count")) | sort) as $got |
    (if $got != $whole then "\($who) has whole GPUs \($got), decided is \($whole)" else empty end)
   else empty end)),
([$running[] | . as $pod | (.status.containerStatuses // [])[] | (.allocatedResourcesStatus // [])[] | .name as $resource |
  .resources[] | {id: "\($resource) \(.resourceID)", pod: $pod.metadata.name}] |
 group_by(.id)[] | map(.pod) as $holders | select($holders | unique | length > 1) | "\(.[0].id) is held by \($holders | unique)")
