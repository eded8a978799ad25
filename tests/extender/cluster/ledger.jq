# Compares three views of a cluster: the inventories of the nodes, the records of the pods and the
# ledger of the extender (/gpushare-scheduler/inspect). Prints one line for each difference. Fails
# without an inventory, because then there is nothing to compare.
#
#   jq -rn --slurpfile nodes nodes.json --slurpfile pods pods.json --slurpfile inspect inspect.json -f ledger.jq

def of_gpu_pod: any(.spec.containers[]; (.resources.limits // {}) | keys | any(startswith("aliyun.com/gpu")));
def name: .metadata.namespace + "/" + .metadata.name;

($nodes[0].items
 | map(select(.metadata.annotations["tessera.io/inventory"])
       | {key: .metadata.name,
          value: (.metadata.annotations["tessera.io/inventory"] | fromjson | {GiB: 1024, MiB: 1}[.unit] as $unit | .gpus
                  | map({key: .uuid, value: (.memory_mib / $unit | floor)}) | from_entries)})
 | from_entries) as $total
| if $total == {} then error("no node has an inventory") else . end
| [$pods[0].items[] | select(of_gpu_pod and .spec.nodeName and (.status.phase | IN("Succeeded", "Failed") | not))] as $bound
| [$bound[] | . as $pod
   | ((.metadata.annotations["tessera.io/allocation"] // "{}") | fromjson | .containers // {}) | to_entries[] | .value[]
   | {node: $pod.spec.nodeName, gpu, pod: ($pod | name), whole: (.whole // false),
      units: (if .whole then $total[$pod.spec.nodeName][.gpu] else .mem end)}] as $records
| ([$records | group_by([.node, .gpu, .pod])[]
    | [.[0].node, .[0].gpu, .[0].pod, (map(.units) | add)]] | sort) as $by_record
| ([$inspect[0].nodes[] | . as $node | .devs[] | . as $gpu | .pods[]
    | [$node.name, $gpu.uuid, .namespace + "/" + .name, .usedGPU]] | sort) as $by_ledger
| ($bound[] | select(.metadata.annotations["tessera.io/allocation"] | not) | "\(name) is bound without a record"),
  ($pods[0].items[] | select((.spec.nodeName | not) and .metadata.annotations["tessera.io/allocation"])
   | "\(name) has a record and is not bound"),
  ($records[] | select($total[.node][.gpu] | not) | "\(.pod) has \(.gpu), which is not on \(.node)"),
  ($records | group_by([.node, .gpu])[] | . as $on
   | ($on | map(.units) | add) as $sum
   | if $sum > $total[$on[0].node][$on[0].gpu]
     then "\($on[0].gpu) has \($total[$on[0].node][$on[0].gpu]) units, but \($sum) are allocated" else empty end),
  ($records | group_by([.node, .gpu])[]
   | select(any(.[]; .whole) and (map(.pod) | unique | length) > 1) | "\(.[0].gpu) is allocated whole and shared"),
  (($by_record - $by_ledger)[] | "not in the ledger: \(.)"),
  (($by_ledger - $by_record)[] | "only in the ledger: \(.)"),
  ($inspect[0].problems[] | "the ledger reports: \(.text)")
