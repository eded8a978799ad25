# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # the library is loaded as a whole: names set here are read there
# Certificates, tokens and kubeconfigs of one cluster; every `up` creates new ones. Sourced.

API_IP=10.77.0.1
API_PORT=6443
SERVICE_IP=10.96.0.1
DNS_IP=10.96.0.10

# openssl_quiet ARGS...: hides the output unless openssl fails; it reports progress on stderr.
openssl_quiet() {
  local out
  out=$(openssl "$@" 2>&1) || die "openssl $1 failed: $out"
}

# issue NAME SUBJECT EXTENSIONS: a key and a certificate signed by the cluster's CA.
issue() {
  local pki=$S/pki
  openssl_quiet req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes \
    -keyout "$pki/$1.key" -out "$pki/$1.csr" -subj "$2"
  openssl_quiet x509 -req -in "$pki/$1.csr" -CA "$pki/ca.crt" -CAkey "$pki/ca.key" -days 365 \
    -set_serial "0x$(openssl rand -hex 8)" -extfile <(printf '%s\n' "$3") -out "$pki/$1.crt"
  rm "$pki/$1.csr"
}

# One server certificate for the API server and both kubelets, with every name and address they
# have.
make_certificates() {
  local pki=$S/pki
  mkdir -p "$pki"
  openssl_quiet req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 365 \
    -keyout "$pki/ca.key" -out "$pki/ca.crt" -subj "/CN=tessera-test-$CLUSTER"
  issue server /CN=kube-apiserver "subjectAltName=DNS:localhost,DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc,DNS:kubernetes.default.svc.cluster.local,DNS:node-a,DNS:node-b,IP:127.0.0.1,IP:$SERVICE_IP,IP:$(node_ip node-a),IP:$(node_ip node-b)
extendedKeyUsage=serverAuth"
  issue apiserver-kubelet-client /O=system:masters/CN=apiserver-kubelet-client extendedKeyUsage=clientAuth
  issue admin /O=system:masters/CN=admin extendedKeyUsage=clientAuth
  openssl_quiet ecparam -genkey -name prime256v1 -noout -out "$pki/sa.key"
  openssl_quiet ec -in "$pki/sa.key" -pubout -out "$pki/sa.pub"
}

# add_user TOKENNAME USER [GROUP]: must run before the API server starts, which reads the list once.
add_user() {
  local token
  token=$(openssl rand -hex 16)
  printf '%s' "$token" >"$S/pki/$1.token"
  printf '%s,%s,%s%s\n' "$token" "$2" "$1" "${3:+,$3}" >>"$S/pki/tokens.csv"
}

# write_kubeconfig FILE SERVER USERFIELDS: with all data inline, so that the file can be copied.
write_kubeconfig() {
  cat >"$1.new" <<EOF
apiVersion: v1
kind: Config
clusters:
- name: $CLUSTER
  cluster:
    server: $2
    certificate-authority-data: $(base64 -w0 "$S/pki/ca.crt")
users:
- name: user
  user:
$3
contexts:
- name: $CLUSTER
  context: {cluster: $CLUSTER, user: user}
current-context: $CLUSTER
EOF
  mv "$1.new" "$1"
}

user_by_token() { printf '    token: %s' "$(<"$S/pki/$1.token")"; }
user_by_certificate() {
  printf '    client-certificate-data: %s\n    client-key-data: %s' \
    "$(base64 -w0 "$S/pki/$1.crt")" "$(base64 -w0 "$S/pki/$1.key")"
}

# make_users: a token and a kubeconfig in kube/ for each component, and two for the administrator.
make_users() {
  local node inside=https://$API_IP:$API_PORT user
  mkdir -p "$S/kube"
  : >"$S/pki/tokens.csv"
  add_user admin-token admin system:masters
  add_user kube-scheduler system:kube-scheduler
  add_user kube-controller-manager system:kube-controller-manager
  add_user kube-proxy system:kube-proxy
  add_user kwok kwok system:masters
  for user in admin-token kube-scheduler kube-controller-manager kube-proxy kwok; do
    write_kubeconfig "$S/kube/$user" "$inside" "$(user_by_token "$user")"
  done
  for node in $(all_nodes); do
    add_user "kubelet-$node" "system:node:$node" system:nodes
    write_kubeconfig "$S/kube/kubelet-$node" "$inside" "$(user_by_token "kubelet-$node")"
  done
  write_kubeconfig "$S/kube/admin" "$inside" "$(user_by_certificate admin)"
}

# make_outside_kubeconfigs PORT: for programs outside, through the api-bridge on the loopback.
make_outside_kubeconfigs() {
  write_kubeconfig "$S/kubeconfig" "https://127.0.0.1:$1" "$(user_by_certificate admin)"
  write_kubeconfig "$S/kubeconfig-token" "https://127.0.0.1:$1" "$(user_by_token admin-token)"
}
