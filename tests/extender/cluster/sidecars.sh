#!/usr/bin/env bash
# Two second schedulers, each with an extender beside it as in one pod (make soak): when
# the scheduler that leads is killed with its extender, is stopped past its lease and wakes up, or ends in order, while 500 pods are being
# scheduled where exactly 500 fit, the other pair goes on and nothing is given away twice.
set -euo pipefail
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"

extender_cluster_start
gpu_nodes 25 4 10
token_kubeconfig extender "https://$API_IP:$API_PORT" "$S/pki/ca.crt"

# pair_start NAME PORT: an extender on PORT and a kube-scheduler that asks it, under the host name of their pod. EXTENDERS and
# SCHEDULERS have their ids.
declare -A EXTENDERS SCHEDULERS PORTS=([pair-a]=39999 [pair-b]=39996)
pair_start() {
  local name=$1 port=${PORTS[$1]}
  echo 'schedulerLease: kube-system/tessera-scheduler' >"$S/$name-extender.yaml"
  (KUBECONFIG=$S/kube/extender POD_NAME=$name POD_NAMESPACE=default in_cluster_network setpriv --pdeathsig KILL -- "$EXTENDER" \
    --listen "127.0.0.1:$port" --attach sidecar --config "$S/$name-extender.yaml" >>"$S/$name-extender.log" 2>&1) &
  EXTENDERS[$name]=$!
  {
    "$EXTENDER" --print-scheduler-config --attach sidecar | sed "s|127.0.0.1:39999|127.0.0.1:$port|"
    echo "clientConnection: {kubeconfig: $S/kube/extender}"
  } >"$S/$name-scheduler.yaml"
  # shellcheck disable=SC2016 # for the inner shell
  (in_cluster_network setpriv --pdeathsig KILL -- unshare --uts bash -c 'hostname "$0" && exec "$@"' "$name" \
    "$S/bin/kube-scheduler" --config="$S/$name-scheduler.yaml" --secure-port="$((port - 20000))" --bind-address=127.0.0.1 \
    --cert-dir="$S/tmp/$name" --authorization-always-allow-paths=/healthz,/readyz >>"$S/$name-scheduler.log" 2>&1) &
  SCHEDULERS[$name]=$!
}
leader() { kubectl -n kube-system get lease tessera-scheduler -o 'jsonpath={.spec.holderIdentity}' 2>/dev/null | sed 's/_.*//'; }
other_of() { if [[ $1 == pair-a ]]; then echo pair-b; else echo pair-a; fi; }
somebody_leads() { [[ $(leader) == pair-* ]]; }
pair_ready() { extender_ready "${PORTS[$1]}"; }
signal_pair() { kill "-$1" "${SCHEDULERS[$2]}" "${EXTENDERS[$2]}"; }

pair_start pair-a
pair_start pair-b
wait_for 30 "the first extender is ready" pair_ready pair-a || finish
wait_for 30 "the second is ready" pair_ready pair-b || finish
wait_for 30 "one of the schedulers leads" somebody_leads || { tail -n 5 "$S/pair-a-scheduler.log" "$S/pair-b-scheduler.log" && finish; }

for trouble in killed stopped ended; do
  leads=$(leader)
  other=$(other_of "$leads")
  pods_json "$trouble" 500 '{"aliyun.com/gpu-mem": "2"}' | jq -c '.items[].spec.schedulerName = "tessera-scheduler"' >"$S/tmp/$trouble.json"
  kubectl create -f "$S/tmp/$trouble.json" >/dev/null &
  creation=$!
  some_run() { (($(running "$trouble") >= 50)); }
  wait_for 120 "$trouble: pods begin to run" some_run || true
  case $trouble in
    killed) signal_pair KILL "$leads" ;;
    stopped) signal_pair STOP "$leads" ;;
    ended) signal_pair TERM "$leads" ;;
  esac
  other_leads() { [[ $(leader) == "$other" ]]; }
  wait_for 60 "$trouble: the other scheduler leads" other_leads || true
  if [[ $trouble == stopped ]]; then
    signal_pair CONT "$leads"
  fi
  wait "$creation"
  wait_for 300 "$trouble: all 500 run" all_running "$trouble" 500 || true
  PORT=${PORTS[$other]} check_books "$trouble: annotations, books and inventory agree"
  kubectl delete pods -l "set=$trouble" --wait=false >/dev/null
  gone() { [[ -z $(kubectl get pods -l "set=$trouble" -o name) ]]; }
  wait_for 120 "$trouble: and all go" gone || true
  # A scheduler that has lost its lease ends by itself, as its pod would be started again.
  signal_pair KILL "$leads" 2>/dev/null || true
  wait "${SCHEDULERS[$leads]}" "${EXTENDERS[$leads]}" 2>/dev/null || true
  pair_start "$leads"
  wait_for 30 "$trouble: both are ready again" pair_ready "$leads" || true
done
for pair in pair-a pair-b; do
  signal_pair KILL "$pair" 2>/dev/null || true
done
finish
