#!/bin/bash
# A real Slurm with several nodes on one machine, for tests. Needs root.
#
#   minislurm.sh up FOLDER NODES ACCOUNTS [SHARED...]   all of it; ACCOUNTS: 1 adds slurmdbd and MariaDB
#   minislurm.sh node FOLDER I [SHARED...]              one node again, if it was stopped
#
# minislurm.py starts this in fresh network, host-name, mount and process
# namespaces, so nothing outside is touched, and all of it ends with its first process:
#
#        ctl (10.99.0.254)  munged, slurmctld, with accounts MariaDB and slurmdbd
#         |  bridge
#    +----+------+
#  node1  node2  ...        slurmd; own network, name, processes, memory
#  10.99.0.1  .2            and /tmp, and 4 GPUs that only the scheduler sees
#
# FOLDER holds configuration, state and logs, and may not lie under /tmp, which
# is private to each node; SHARED folders under /tmp are put back at their place.
set -eu
net=10.99.0

write_names() {
    {
        echo "127.0.0.1 localhost"
        echo "$net.254 ctl"
        for i in $(seq "$nodes"); do echo "$net.$i node$i"; done
    } >"$folder/etc/hosts"
    echo "hosts: files" >"$folder/etc/nsswitch.conf" # no waiting for a name server
    for database in passwd group shadow services protocols; do
        echo "$database: files" >>"$folder/etc/nsswitch.conf"
    done
}

write_configuration() {
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
# Without control groups: a step over its memory is seen once a second, and killed.
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=task=1
JobAcctGatherParams=OverMemoryKill
SchedulerParameters=sched_interval=1,bf_interval=1
ReturnToService=2
# A node that is silent for so long is down.
SlurmdTimeout=4
# On a busy machine a job may take long to start; else it is taken for lost, and queued again.
BatchStartTimeout=120
KillWait=2
# A node whose last job still ends is waited for; else the next job gets other nodes, now and then.
CompleteWait=10
MinJobAge=600
GresTypes=gpu
NodeName=DEFAULT CPUs=128 RealMemory=512000 Gres=gpu:a100:4 Feature=cpu,gpu,a100 State=UNKNOWN
# Slurm would give a job the node that is fuller; the last one, which is scavenger's, comes last.
$( [ "$nodes" = 1 ] || echo "NodeName=node[1-$((nodes - 1))]" )
NodeName=node$nodes Weight=2
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
PartitionName=DEFAULT DefaultTime=15 MaxTime=60 PreemptMode=OFF PriorityTier=10 State=UP
PartitionName=standard Nodes=ALL Default=YES
PartitionName=debug Nodes=ALL DefaultTime=5 MaxTime=15
PartitionName=gpu Nodes=ALL
# Jobs of the other partitions may take its node from its jobs.
PartitionName=scavenger Nodes=node$nodes PriorityTier=1 PreemptMode=REQUEUE
CONF
    # Links to /dev/null pass for devices; making real ones is forbidden in containers.
    for gpu in 0 1 2 3; do ln -s /dev/null "$folder/dev/gpu$gpu"; done
    cat >"$folder/etc/gres.conf" <<CONF
AutoDetect=off
NodeName=node[1-$nodes] Name=gpu Type=a100 File=$folder/dev/gpu[0-3]
CONF
    echo CgroupAutomount=no >"$folder/etc/cgroup.conf"
    if [ "$accounts" = 1 ]; then
        cat >>"$folder/etc/slurm.conf" <<CONF
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=ctl
AccountingStoragePass=$folder/run/munge.sock
AccountingStorageEnforce=associations,limits
# Here sbatch refuses at once what else would wait for ever.
EnforcePartLimits=ALL
CONF
        (umask 077 && cat >"$folder/etc/slurmdbd.conf") <<CONF
DbdHost=ctl
DbdAddr=$net.254
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$folder/run/munge.sock
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=root
StorageLoc=slurm
LogFile=$folder/log/slurmdbd.log
PidFile=$folder/run/slurmdbd.pid
CONF
    else
        echo "JobCompType=jobcomp/filetxt" >>"$folder/etc/slurm.conf"
        echo "JobCompLoc=$folder/log/jobcomp.log" >>"$folder/etc/slurm.conf"
    fi
}

start_accounts() {
    local socket=$folder/run/mariadb.sock
    mkdir -p "$folder"/db/{mysql,slurm} /run/mysqld
    # Without the tables of users and rights it starts in 0.1 s; nobody else reaches its socket.
    mariadbd --no-defaults --user=root --skip-grant-tables --skip-networking --skip-log-bin \
        --datadir="$folder/db" --socket="$socket" --pid-file="$folder/run/mariadb.pid" \
        --innodb-buffer-pool-size=64M --innodb-flush-log-at-trx-commit=0 --innodb-lock-wait-timeout=900 \
        </dev/null >>"$folder/log/mariadb.log" 2>&1 &
    until mariadb --no-defaults -S "$socket" -e "" 2>/dev/null; do sleep 0.02; done
    # slurmdbd makes a procedure, and for these MariaDB needs one table of its own.
    grep "^CREATE TABLE IF NOT EXISTS proc (" /usr/share/mysql/mysql_system_tables.sql |
        mariadb --no-defaults -S "$socket" mysql
    # slurmdbd knows only the usual place of the socket.
    mount -t tmpfs tmpfs /run/mysqld
    ln -s "$socket" /run/mysqld/mysqld.sock
    slurmdbd
    # Asked too early, sacctmgr waits for seconds before it asks again.
    until (: </dev/tcp/ctl/6819) 2>/dev/null; do sleep 0.02; done
    {
        sacctmgr -i add cluster mini
        sacctmgr -i add account class-aac,dry-aac Description=class Organization=course
        sacctmgr -i add user root Account=class-aac,dry-aac DefaultAccount=class-aac
        # An account whose units are spent: its jobs wait for ever.
        sacctmgr -i modify account dry-aac set GrpTRESMins=cpu=0
    } >>"$folder/log/sacctmgr.log" 2>&1
}

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
    mount -t tmpfs -o mode=1777 tmpfs /dev/shm # ranks of one node meet there
    number=0
    for shared; do mkdir -p "$shared"
        mount --bind "$folder/keep/$name-$number" "$shared"; number=$((number + 1)); done
    until ip addr show dev eth0 2>/dev/null | grep -q inet; do sleep 0.02; done
    exec slurmd -D -N "$name"'

start_node() {
    local i=$1 pid
    shift
    unshare --net --uts --ipc --mount --propagation private --pid --fork --kill-child --mount-proc \
        bash -c "$node_main" node "node$i" "$folder" "$@" </dev/null >>"$folder/log/node$i.out" 2>&1 &
    pid=$!
    echo "$pid" >"$folder/run/node$i.pid" # whoever kills it stops the node
    # The veth's far end can enter the node's network only once unshare made it.
    until [ "$(readlink /proc/$pid/ns/net)" != "$(readlink /proc/self/ns/net)" ]; do sleep 0.01; done
    # After a stop the kernel needs a moment to take the old one away.
    until ip link add "veth$i" type veth peer name eth0 netns "$pid" 2>>"$folder/log/node$i.out"; do sleep 0.02; done
    ip link set "veth$i" master bridge0 up
    nsenter --target "$pid" --net sh -c \
        "ip link set lo up; ip link set eth0 up; ip addr add $net.$i/24 dev eth0"
}

await_idle() {
    for _ in $(seq 300); do
        [ "$(sinfo -h -t idle -o %D -p standard 2>/dev/null)" = "$nodes" ] && return
        sleep 0.05
    done
    echo "the nodes did not come up: see $folder/log" >&2
    return 1
}

case $1 in
node)
    folder=$2
    # A dead process has no namespaces, even while nobody has asked for its exit status.
    readlink "/proc/$(cat "$folder/run/node$3.pid")/ns/net" >/dev/null && exit 0 # it still runs
    start_node "$3" "${@:4}"
    ;;
up)
    folder=$2 nodes=$3 accounts=$4
    shift 4
    hostname ctl
    mkdir -p "$folder"/{etc,run,log,state,keep,dev}
    for i in $(seq "$nodes"); do mkdir -p "$folder/spool/node$i"; done
    mount --make-rprivate /
    mount -t proc proc /proc
    write_names
    write_configuration
    mount --bind "$folder/etc/hosts" /etc/hosts
    mount --bind "$folder/etc/nsswitch.conf" /etc/nsswitch.conf
    # A job with --export=NONE starts a login shell of its user's first: what this machine's profile
    # does there is no part of the tests, and a job may be killed in the middle of it.
    touch "$folder/etc/nothing"
    for profile in .bash_profile .bash_login .profile .bashrc; do
        [ ! -f "$HOME/$profile" ] || mount --bind "$folder/etc/nothing" "$HOME/$profile"
    done
    mkdir -p /etc/slurm && mount --bind "$folder/etc" /etc/slurm

    ip link set lo up
    ip link add bridge0 type bridge
    ip addr add "$net.254/24" dev bridge0
    ip link set bridge0 up

    (umask 077 && head -c 128 /dev/urandom >"$folder/run/munge.key")
    munged --key-file="$folder/run/munge.key" --socket="$folder/run/munge.sock" \
        --pid-file="$folder/run/munged.pid" --log-file="$folder/log/munged.log" \
        --seed-file="$folder/run/munge.seed" --num-threads=2
    [ "$accounts" = 0 ] || start_accounts
    slurmctld
    for i in $(seq "$nodes"); do start_node "$i" "$@"; done
    await_idle
    touch "$folder/ready"
    exec sleep infinity
    ;;
esac
