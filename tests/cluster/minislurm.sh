#!/bin/bash
# A real Slurm with several nodes on one machine, for tests. Needs root.
#
#   minislurm.sh FOLDER NODES [SHARED...]
#
# minislurm.py starts this in fresh network, host-name, mount and process
# namespaces, so nothing outside is touched, and all of it ends with its first process:
#
#        ctl (10.99.0.254)  munged, slurmctld
#         |  bridge
#    +----+------+
#  node1  node2  ...        slurmd; own network, host name and /tmp
#  10.99.0.1  .2
#
# FOLDER holds configuration, state and logs, and may not lie under /tmp, which
# is private to each node; SHARED folders under /tmp are put back at their place.
set -eu
folder=$1 nodes=$2
shift 2
net=10.99.0

hostname ctl
mkdir -p "$folder"/{etc,run,log,state,keep}
for i in $(seq "$nodes"); do mkdir -p "$folder/spool/node$i"; done
mount --make-rprivate /
mount -t proc proc /proc

{
    echo "127.0.0.1 localhost"
    echo "$net.254 ctl"
    for i in $(seq "$nodes"); do echo "$net.$i node$i"; done
} >"$folder/etc/hosts"
echo "hosts: files" >"$folder/etc/nsswitch.conf" # no waiting for a name server
for database in passwd group shadow services protocols; do
    echo "$database: files" >>"$folder/etc/nsswitch.conf"
done

cat >"$folder/etc/slurm.conf" <<CONF
ClusterName=mini
SlurmctldHost=ctl($net.254)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$folder/run/munge.sock,cred_expire=10
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool/%n
SlurmctldPidFile=$folder/run/slurmctld.pid
SlurmdPidFile=$folder/run/slurmd-%n.pid
SlurmctldLogFile=$folder/log/slurmctld.log
SlurmdLogFile=$folder/log/slurmd-%n.log
MailProg=/bin/true
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SlurmdParameters=config_overrides
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU=500
JobCompType=jobcomp/filetxt
JobCompLoc=$folder/log/jobcomp.log
SchedulerParameters=sched_interval=1,bf_interval=1
ReturnToService=2
KillWait=2
MinJobAge=600
NodeName=node[1-$nodes] CPUs=8 RealMemory=16000 State=UNKNOWN
PartitionName=standard Nodes=ALL Default=YES DefaultTime=15 MaxTime=60 State=UP
PartitionName=debug Nodes=ALL DefaultTime=5 MaxTime=15 State=UP
CONF

mount --bind "$folder/etc/hosts" /etc/hosts
mount --bind "$folder/etc/nsswitch.conf" /etc/nsswitch.conf
mkdir -p /etc/slurm && mount --bind "$folder/etc" /etc/slurm

ip link set lo up
ip link add bridge0 type bridge
ip addr add "$net.254/24" dev bridge0
ip link set bridge0 up

(umask 077 && head -c 128 /dev/urandom >"$folder/run/munge.key")
munged --key-file="$folder/run/munge.key" --socket="$folder/run/munge.sock" \
    --pid-file="$folder/run/munged.pid" --log-file="$folder/log/munged.log" \
    --seed-file="$folder/run/munge.seed" --num-threads=2
slurmctld

# Runs inside a node's namespaces: its name, its /tmp, then its slurmd.
node_main='
    set -eu
    name=$1 folder=$2
    shift 2
    hostname "$name"
    number=0
    for shared; do mkdir -p "$folder/keep/$name-$number"
        mount --bind "$shared" "$folder/keep/$name-$number"; number=$((number + 1)); done
    mount -t tmpfs -o mode=1777 tmpfs /tmp
    # MPICH names its shared memory after the job, and the numbers of jobs start anew each time.
    mount -t tmpfs -o mode=1777 shm /dev/shm
    number=0
    for shared; do mkdir -p "$shared"
        mount --bind "$folder/keep/$name-$number" "$shared"; number=$((number + 1)); done
    until ip addr show dev eth0 2>/dev/null | grep -q inet; do sleep 0.02; done
    exec slurmd -D -N "$name"'
for i in $(seq "$nodes"); do
    unshare --net --uts --ipc --mount --propagation private \
        bash -c "$node_main" node "node$i" "$folder" "$@" </dev/null >>"$folder/log/node$i.out" 2>&1 &
    node_pid=$!
    # The veth's far end can enter the node's network only once unshare made it.
    until [ "$(readlink /proc/$node_pid/ns/net)" != "$(readlink /proc/self/ns/net)" ]; do sleep 0.01; done
    ip link add "veth$i" type veth peer name eth0 netns "$node_pid"
    ip link set "veth$i" master bridge0 up
    nsenter --target "$node_pid" --net sh -c \
        "ip link set lo up; ip link set eth0 up; ip addr add $net.$i/24 dev eth0"
done

for _ in $(seq 300); do
    [ "$(sinfo -h -t idle -o %D -p standard 2>/dev/null)" = "$nodes" ] && touch "$folder/ready" && break
    sleep 0.05
done
[ -e "$folder/ready" ] || { echo "the nodes did not come up: see $folder/log" >&2; exit 1; }
exec sleep infinity
