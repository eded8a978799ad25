# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # the library is loaded as a whole: names set here are read there
# Starts etcd, the API server, the controller manager, the scheduler and the bridge to the loopback
# outside. Sourced. Every run_* function ends in exec, so that the pid of the part is that of the
# program.

run_etcd() {
  exec etcd --name t --data-dir "$S/etcd" --unsafe-no-fsync --log-level warn \
    --listen-client-urls http://127.0.0.1:2379 --advertise-client-urls http://127.0.0.1:2379 \
    --listen-peer-urls http://127.0.0.1:2380 --initial-advertise-peer-urls http://127.0.0.1:2380 \
    --initial-cluster t=http://127.0.0.1:2380
}

run_kube_apiserver() {
  local pki=$S/pki
  exec kube-apiserver --bind-address=0.0.0.0 --advertise-address="$API_IP" --secure-port="$API_PORT" \
    --etcd-servers=http://127.0.0.1:2379 --service-cluster-ip-range="${SERVICE_IP%.*}.0/24" \
    --tls-cert-file="$pki/server.crt" --tls-private-key-file="$pki/server.key" \
    --client-ca-file="$pki/ca.crt" --token-auth-file="$pki/tokens.csv" \
    --service-account-issuer=https://kubernetes.default.svc \
    --service-account-key-file="$pki/sa.pub" --service-account-signing-key-file="$pki/sa.key" \
    --authorization-mode=Node,RBAC --enable-admission-plugins=NodeRestriction --allow-privileged=true --cert-dir="$S/tmp" \
    --kubelet-certificate-authority="$pki/ca.crt" --kubelet-preferred-address-types=InternalIP \
    --kubelet-client-certificate="$pki/apiserver-kubelet-client.crt" \
    --kubelet-client-key="$pki/apiserver-kubelet-client.key" ${ADMISSION_CONFIG:+--admission-control-config-file="$ADMISSION_CONFIG"}
}

run_kube_controller_manager() {
  local kubeconfig=$S/kube/kube-controller-manager grace=40s
  # Simulated nodes renew their leases rarely (see kwok.sh); with the default they would be
  # NotReady.
  ((SIM_NODES == 0)) || grace=${SIM_GRACE_SECONDS}s
  # With the default of 20 requests a second, the first ServiceAccount would take seconds to appear.
  exec kube-controller-manager --kubeconfig="$kubeconfig" --authentication-kubeconfig="$kubeconfig" \
    --kube-api-qps=500 --kube-api-burst=1000 \
    --authorization-kubeconfig="$kubeconfig" --bind-address=127.0.0.1 --cert-dir="$S/tmp/kcm" \
    --leader-elect=false --use-service-account-credentials=true --node-monitor-grace-period="$grace" \
    --service-account-private-key-file="$S/pki/sa.key" --root-ca-file="$S/pki/ca.crt" \
    --controllers='*,-nodeipam,-node-route-controller,-cloud-node-lifecycle-controller'
}

run_kube_scheduler() {
  local kubeconfig=$S/kube/kube-scheduler
  scheduler_config "$SCHEDULER_CONFIG" "$kubeconfig" >"$S/kube-scheduler.yaml"
  exec kube-scheduler --config="$S/kube-scheduler.yaml" --bind-address=127.0.0.1 --cert-dir="$S/tmp/scheduler" \
    --authentication-kubeconfig="$kubeconfig" --authorization-kubeconfig="$kubeconfig"
}

# scheduler_config FILE KUBECONFIG: prints the configuration to run with: that of FILE ("" for the
# default) with two changes. clientConnection.kubeconfig is set to KUBECONFIG if it is missing or is
# kubeadm's path, which ready-made files contain and which on this machine could only belong to
# another cluster. Leader election is off unless FILE configures it.
scheduler_config() {
  local text
  if [[ -z $1 ]]; then
    text=$'apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration'
  else
    text=$(<"$1")
  fi
  if jq -e . >/dev/null 2>&1 <<<"$text"; then
    jq --arg k "$2" --arg kubeadm /etc/kubernetes/scheduler.conf '
      .clientConnection.kubeconfig |= (if (. // $kubeadm) == $kubeadm then $k else . end) | .leaderElection.leaderElect |= (. // false)' <<<"$text"
    return
  fi
  awk -v kubeconfig="$2" '
    function close_block() {
      if (block == "clientConnection" && !named) print indent "kubeconfig: " kubeconfig
      block = ""
    }
    /^[^[:space:]#-]/ {
      close_block()
      if ($0 ~ /^clientConnection:[[:space:]]*\{/) {
        seen_client = 1
        sub(/kubeconfig: *\/etc\/kubernetes\/scheduler\.conf/, "kubeconfig: " kubeconfig)
        if ($0 !~ /kubeconfig:/) sub(/\{/, "{kubeconfig: " kubeconfig ", "); sub(/, \}/, "}")
      } else if ($0 ~ /^clientConnection:/) {
        block = "clientConnection"; seen_client = 1; named = 0; indent = "  "
      }
      if ($0 ~ /^leaderElection:/) seen_election = 1
    }
    block == "clientConnection" && /^[[:space:]]+[^#[:space:]]/ {
      match($0, /^[[:space:]]+/); indent = substr($0, 1, RLENGTH)
      if ($0 ~ /^[[:space:]]+kubeconfig:[[:space:]]*\/etc\/kubernetes\/scheduler\.conf[[:space:]]*$/) next
      if ($0 ~ /^[[:space:]]+kubeconfig:[[:space:]]*[^[:space:]]/) named = 1
      else if ($0 ~ /^[[:space:]]+kubeconfig:/) next
    }
    { print }
    END {
      close_block()
      if (!seen_client) print "clientConnection:\n  kubeconfig: " kubeconfig
      if (!seen_election) print "leaderElection:\n  leaderElect: false"
    }' <<<"$text"
}

# run_api_bridge: makes the API server available on a loopback port of the network namespace outside
# (fd 9), for programs outside of the cluster. It has two halves, because a Unix socket can be
# opened from another network namespace and a TCP port cannot. If one half ends, so does the other.
run_api_bridge() {
  local socket=$S/api.sock port
  port=$(cat "$S/api-port" 2>/dev/null || echo 0) # a restarted bridge must use the same port
  rm -f "$socket"
  setpriv --pdeathsig KILL -- socat "UNIX-LISTEN:$socket,fork,mode=600" "TCP:$API_IP:$API_PORT" 9<&- &
  setpriv --pdeathsig KILL -- nsenter --net=/proc/self/fd/9 -- socat -d -d \
    "TCP-LISTEN:$port,bind=127.0.0.1,fork,reuseaddr" "UNIX-CONNECT:$socket" &
  wait -n
}

# api_bridge_port: prints the port, from the log of socat.
api_bridge_port() {
  local line
  line=$(grep -m1 'listening on' "$S/parts/api-bridge/log" 2>/dev/null) || return 1
  printf '%s' "${line##*:}"
}
