#!/usr/bin/env bash
# The procedure of Google's page "Maximize GPU network bandwidth in Autopilot mode clusters", done by
# hand: one command after the other, with gcloud and kubectl, for either stack. It is here to be
# measured against `pulumi up`, and as a judge of the sandbox that knows nothing of the program.
#
#   benchmarks/page_script.sh up|down a3-mega|a3-high
#
# Environment: PREFIX (page), REGION (us-east4), CLUSTER ($PREFIX-cluster), VERSION (empty: the
# channel's), and what gcloud and kubectl need to find the cloud. The page has no tear-down; `down`
# is what a careful reader would add.
set -euo pipefail

action=${1:?up or down} stack=${2:?a3-mega or a3-high}
prefix=${PREFIX:-page} region=${REGION:-us-east4}
cluster=${CLUSTER:-$prefix-cluster} version=${VERSION:-}
here=$(cd "$(dirname "$0")" && pwd)
case $stack in
  a3-mega) nics=8 entry=/scripts/allgather.sh ;;
  a3-high) nics=4 entry=/configs/allgather.sh ;;
  *) echo "page_script.sh: got $stack, expected a3-mega or a3-high" >&2; exit 2 ;;
esac

objects() {
  for n in $(seq 1 "$nics"); do
    cat <<YAML
---
apiVersion: networking.gke.io/v1
kind: Network
metadata:
  name: vpc$n
spec:
  type: Device
  parametersRef:
    group: networking.gke.io
    kind: GKENetworkParamSet
    name: vpc$n
---
apiVersion: networking.gke.io/v1
kind: GKENetworkParamSet
metadata:
  name: vpc$n
spec:
  vpc: $prefix-net-$n
  vpcSubnet: $prefix-sub-$n
  deviceMode: NetDevice
YAML
  done
}

up() {
  gcloud services enable compute.googleapis.com container.googleapis.com
  for n in $(seq 1 "$nics"); do
    gcloud compute networks create "$prefix-net-$n" --subnet-mode=custom --mtu=8244
    gcloud compute networks subnets create "$prefix-sub-$n" \
      --network="$prefix-net-$n" --region="$region" --range="192.168.$n.0/24"
    gcloud compute firewall-rules create "$prefix-internal-$n" \
      --network="$prefix-net-$n" --action=ALLOW --rules=tcp:0-65535,udp:0-65535,icmp \
      --source-ranges=192.168.0.0/16
  done
  gcloud compute networks list
  gcloud container get-server-config --format="yaml(validMasterVersions)" --region="$region"
  gcloud beta container clusters create-auto "$cluster" --location="$region" \
    ${version:+--cluster-version="$version"} \
    --enable-multi-networking --workload-policies=allow-net-admin
  objects | kubectl apply -f -
  kubectl kustomize --load-restrictor LoadRestrictionsNone "$here/page/$stack" | kubectl apply -f -
  if [ -e "$here/page/$stack/nccl-config.yaml" ]; then
    kubectl apply -f "$here/page/$stack/nccl-config.yaml"
  fi
  kubectl apply -f "$here/page/$stack/nccl-test.yaml"
  kubectl wait --for=condition=Ready --timeout=30m pod/nccl-test-host-1 pod/nccl-test-host-2
  kubectl exec nccl-test-host-1 --container=nccl-test -- "$entry" nccl-host-1 nccl-host-2
}

down() {
  gcloud container clusters delete "$cluster" --location="$region" --quiet
  for n in $(seq 1 "$nics"); do
    gcloud compute firewall-rules delete "$prefix-internal-$n" --quiet
    gcloud compute networks subnets delete "$prefix-sub-$n" --region="$region" --quiet
    gcloud compute networks delete "$prefix-net-$n" --quiet
  done
}

case $action in
  up) up ;;
  down) down ;;
  *) echo "page_script.sh: got $action, expected up or down" >&2; exit 2 ;;
esac
