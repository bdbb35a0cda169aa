#!/bin/bash
# Slurm's Prolog: looks at the node before a job starts there, and drains it where something FAILs. On every node, owned
# by root, and in slurm.conf:
#   Prolog=/etc/slurm/prolog.d/busbar.sh
#   PrologFlags=Alloc          # on all nodes of an allocation, not where and when the first step starts
# Slurm drains the node, with "Prolog error", and holds the job for every exit code but 0. So this ends with 1 where
# `busbar doctor` has looked and says FAIL (exit code 7), and with 0 otherwise: a busbar that is missing, crashes or
# hangs must not drain the cluster; it is told in the system's log alone. No MPI is started, and Slurm is not asked for
# anything: its daemons wait for this script. It is for nodes that jobs have to themselves: what another job fills, such
# as /dev/shm, is taken for a fault.

busbar=/usr/bin/busbar # a prolog has no PATH
limit_s=5              # a node answers within a second; with what is added below less than MessageTimeout (10)
drain=yes              # no: log what would be drained. Begin with that, also after an update of busbar

export PATH=/usr/sbin:/usr/bin:/sbin:/bin
trap '' PIPE # nobody may read what is printed here

say() {
  printf '%s\n' "$1"
  timeout 1 logger -t busbar-prolog <<<"$1" 2>/dev/null
}

# Not $(...), which would wait for a process that the kernel does not let end (a dead file server) beyond any limit.
IFS= read -r -d '' -t $((limit_s + 2)) told < <(
  exec 2>&1 </dev/null
  timeout -k 1 "$limit_s" "$busbar" doctor --local
  echo "exit code $?"
)
case ${told##*exit code } in
  $'0\n') exit 0 ;;
  $'7\n')
    # Two witnesses: a 7 by itself may come from anything that stands at that path.
    if [[ $'\n'$told == *$'\ndoctor: FAIL'* ]]; then
      say "job ${SLURM_JOB_ID:-?}, drain=$drain: $told"
      [[ $drain != yes ]] || exit 1
      exit 0
    fi
    ;;
esac
say "job ${SLURM_JOB_ID:-?}: the node was not looked at: ${told:-$busbar did not answer in $limit_s s}"
exit 0
