#!/usr/bin/env bash
# Checks what needs a GPU, from a build (make, then this) or from an unpacked bundle:
#   scripts/gpu_check.sh [--list] [--dry-run] [--part 1|2|3] [--time SECONDS] [--estimates FILE] [--json FILE]
#                        [--logs DIR] [STAGE...]    all stages without names
# Every stage ends as PASS, FAIL or SKIP (with the reason). Exit codes: 0 none failed, 1 one did, 5 no GPU or no NCCL of
# 2.19 or newer is here, 8 none failed but time (570 s unless said otherwise) was too short for all; each part fits by
# its stages' limits.
# --dry-run says which stages would run, on which GPUs, and why others would not; --recorded FILE shows it the GPUs of
# another machine (nvidia-smi's lines, as in facts.log). --estimates FILE: a JSON file of before, by whose times more
# stages fit. BUSBAR_BUILD names a build directory other than build/. NCCL is the loader's, else (or where that is too
# old) that of a Python package; NCCL_HOME names another.
# shellcheck disable=SC2317  # stages and what they call are reached by name
set -uo pipefail

total_s=570            # for facts and stages together, so that a caller with ten minutes sees the summary
readonly facts_s=30    # most that a look at the machine takes
ranks_T=60             # -T of every run: a hang ends with its own report, where the stage has so much time left
readonly report_s=10   # how much later the report is there

# name, part, limit in seconds, GPUs (one, one that several ranks share, all), what it does
readonly stages=(
  "kernels   1  60 one fill and check kernels against the host's, bit for bit"
  "bench     1  20 one GB/s of the fill and check kernels beside a device copy"
  "single    1  60 one all executables on one GPU with one rank"
  "device    1  60 one -D: the device API kernels on one rank, and what refuses them"
  "large     1  40 one more than 2^31 elements and 4 GiB on one rank; a bit flipped at 4.5 GiB is found"
  "nccl2     1 110 shared 2 ranks on one GPU: all collectives, dtypes and operations"
  "nccl4     1  80 shared 4 ranks on one GPU: all collectives; all dtypes and operations of all_reduce"
  "nccl8     1  90 shared 8 ranks on one GPU: what takes a step per rank; all dtypes and all operations of all_reduce"
  "json      1  20 shared the JSON file is valid"
  "choice    2  30 all the backend is chosen, refused and forced as documented"
  "options   2  90 shared -G -R -m -z -I -x -M -y -u -C -N on 2 ranks"
  "algo      2  80 shared --show-algo and --show-prediction; our tuner decides and is seen to"
  "hang      2 140 shared a rank stopped, killed, lagging and calling wrongly: the report, RAS, NCCL's logs in diagnose"
  "accept    2  90 shared doctor through NVML, locate and accept over NCCL: that they end, and what they say"
  "sanitizer 2 110 one compute-sanitizer memcheck and racecheck over the kernels"
  "multi     3 540 all every GPU of this machine: -g, -t, and one rank per GPU (needs 2 GPUs)"
)
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
mapfile -t collectives < <(sed -nE 's/^ +COLLECTIVE\(([a-z_0-9]+),.*/\1/p' "$root/src/collectives/collective_list.h")
readonly collectives
if ((${#collectives[@]} == 0)); then
  echo "gpu_check.sh: no collectives in $root/src/collectives/collective_list.h" >&2
  exit 255
fi
if [[ -x $root/busbar-run ]]; then
  readonly bin=$root/bin tests=$root/bin tuner=$root/lib/libbusbar_tuner.so
  launcher=("$root/busbar-run")
else
  readonly bin=${BUSBAR_BUILD:-$root/build}
  readonly tests=$bin/test tuner=$bin/libbusbar_tuner.so
  launcher=()
fi
export PATH="$PATH:/usr/local/cuda/bin"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1
export NCCL_DEBUG=${NCCL_DEBUG:-WARN}

# What a stage needs. -------------------------------------------------------------------------------------------------
stage_end=0    # $SECONDS at which the running stage must be over
failures=0     # of the running stage

# Runs a command within the stage's time and expects its exit code to be one of those in $1. One that this time cuts
# short has not failed, unless it had long enough to end a hang by itself (-T). What went wrong is said in the stage's
# log (3), wherever the output goes.
expect() {
  local want=$1 left=$((stage_end - SECONDS)) begin=$SECONDS got=0 took
  shift
  if ((left <= 0)); then
    echo "NOT RUN, the stage's time is over: $*" >&3
    exit $((failures > 0 ? 1 : 8))
  fi
  echo "\$ $*"
  timeout -k 5 "$left" "${launcher[@]}" "$@" </dev/null || got=$?
  took=$((SECONDS - begin))
  if ((took >= left)) && [[ $got == 124 || $got == 137 ]]; then
    if [[ " $* " == *" -T "* ]] && ((took >= ranks_T + report_s)); then
      echo "FAILED: a hang of $took s without its report: $*" >&3
      exit 1
    fi
    echo "CUT SHORT, the stage's time is over, $took s into: $*" >&3
    exit $((failures > 0 ? 1 : 8))
  elif [[ " $want " == *" $got "* ]]; then
    echo "ok: $took s"
  else
    echo "FAILED with $got instead of $want after $took s: $*" >&3
    failures=$((failures + 1))
  fi
}

run() { expect 0 "$@"; }

# ranks N PROGRAM OPTIONS...: N processes that share GPU 0. Unbound: NCCL's proxy threads spin beside the ranks.
ranks() {
  local n=$1 program=$2
  shift 2
  run mpirun -n "$n" --oversubscribe --bind-to none "$bin/$program" --backend nccl --ranks-per-gpu "$n" -T "$ranks_T" "$@"
}

# Skips the running stage from inside its function.
skip() {
  echo "SKIP: $*"
  exit 77
}

# A missing test program is a failure: a build without CUDA must not pass on a GPU machine.
need() {
  if [[ ! -x $1 ]]; then
    echo "FAILED: $1 is not there (built without CUDA, or without the tests?)"
    exit 1
  fi
}

# Stages. Sizes are small where ranks share a GPU: without MPS each hop costs a time slice of about 2 ms. --------------
stage_kernels() {
  need "$tests/kernels_gpu"
  run "$tests/kernels_gpu"
}

stage_bench() {
  need "$tests/kernels_gpu"
  run "$tests/kernels_gpu" --bench
}

stage_single() {
  local c
  for c in "${collectives[@]}"; do
    run "$bin/${c}_perf" --backend nccl -b 8 -e 64M -f 64 -n 5 -T "$ranks_T"
  done
  run "$bin/all_reduce_perf" --backend nccl -b 1M -e 1M -d all -o all -n 2 -T "$ranks_T"
}

stage_choice() {
  # One rank more than there are GPUs.
  expect 5 mpirun -n $((gpus + 1)) --oversubscribe --bind-to none "$bin/all_reduce_perf" -b 8 -e 8 -T "$ranks_T"
  expect 5 "$bin/all_reduce_perf" --backend nccl -b 8 -e 8 -y 1 -G 1 -T "$ranks_T"
  run "$bin/all_reduce_perf" --backend mpi -b 8 -e 1K -f 2 -T "$ranks_T"
  run "$bin/all_reduce_perf" -b 8 -e 1K -f 2 -T "$ranks_T"
}

stage_nccl2() {
  local c
  for c in "${collectives[@]}"; do
    case $c in
      all_reduce | reduce_scatter | reduce | reduce_scatterv) ranks 2 "${c}_perf" -b 64K -e 64K -n 1 -d all -o all ;;
      *) ranks 2 "${c}_perf" -b 64K -e 64K -n 1 -d all ;;
    esac
  done
}

stage_nccl4() {
  local c
  for c in "${collectives[@]}"; do ranks 4 "${c}_perf" -b 64K -e 64K -n 1; done
  ranks 4 all_reduce_perf -b 16K -e 16K -n 1 -d all -o all --placement out
}

stage_nccl8() {
  local c
  # 8 contexts take long to make and nccl4 has every collective, so only what takes a step per rank.
  for c in all_gather reduce_scatter alltoall alltoallv hypercube; do
    ranks 8 "${c}_perf" -b 64K -e 64K -n 1 --placement out
  done
  ranks 8 all_reduce_perf -b 16K -e 16K -n 1 -d all --placement out
  ranks 8 all_reduce_perf -b 16K -e 16K -n 1 -o all --placement out
}

stage_options() {
  local sizes=(-b 64 -e 64K -f 32 -n 2) c
  for c in all_reduce sendrecv alltoallv hypercube; do
    ranks 2 "${c}_perf" "${sizes[@]}" -G 2
    ranks 2 "${c}_perf" "${sizes[@]}" -m 3
  done
  for c in oneway both; do ranks 2 pingpong_perf "${sizes[@]}" --pattern "$c" --window 16; done
  ranks 2 all_reduce_perf "${sizes[@]}" -R 1 -M 1
  ranks 2 all_gather_perf "${sizes[@]}" -R 2 -M 1
  ranks 2 all_reduce_perf "${sizes[@]}" -z 1
  ranks 2 all_reduce_perf "${sizes[@]}" -z 2 -y 1
  ranks 2 all_reduce_perf "${sizes[@]}" -z 3 -I 1
  ranks 2 all_reduce_perf "${sizes[@]}" -I 1 -K 1 -C 1
  ranks 2 all_reduce_perf "${sizes[@]}" -x 0 -u 1 -S 1
  ranks 2 all_reduce_perf "${sizes[@]}" -x 1 -N 2 -c 2
  ranks 2 all_gather_perf "${sizes[@]}" -x 2 -R 2
  ranks 2 broadcast_perf "${sizes[@]}" -r all -p 1
  ranks 2 comm_perf -n 3
}

why_not_json() { command -v python3 >/dev/null || echo "no python3"; }

stage_json() {
  local file=$logs/result.json
  rm -f "$file"*
  ranks 2 all_reduce_perf -b 8 -e 64K -f 32 -n 2 -J "$file"
  echo "\$ python3 -m json.tool $file"
  if ! python3 -m json.tool "$file" >/dev/null; then
    echo "FAILED: $file is not valid JSON"
    failures=$((failures + 1))
  fi
}

# shows PATTERN WHAT: every row of the table in $table ends in columns that match.
shows() {
  local bad
  cat "$table"
  bad=$(grep -E '^ *[0-9]+ ' "$table" | grep -vE "($1) *\$")
  if [[ -n $bad ]] || ! grep -qE '^ *[0-9]+ ' "$table"; then
    printf 'FAILED: %s, in these rows:\n%s\n' "$2" "$bad"
    failures=$((failures + 1))
  fi
}

# says TEXT...: one of them is somewhere in $table.
says() {
  local texts
  texts=$(printf '%s\n' "$@")
  if ! grep -qF -e "$texts" "$table"; then
    echo "FAILED: nothing says: ${texts//$'\n'/, or: }"
    failures=$((failures + 1))
  fi
}

stage_algo() {
  local table=$logs/algo.txt csv=$logs/tuner.csv name='[A-Z][A-Z_]+ +(LL|LL128|SIMPLE) +([0-9]+|-)'
  local sizes=(-b 8 -e 4M -f 64 -n 2)
  local share_sizes=(-b 512 -e 4M -f 64 -n 2)  # of 8 bytes a rank's share is nothing, of which NCCL tells nothing
  unset NCCL_DEBUG  # -R 2 needs NCCL's log for itself
  ranks 2 all_reduce_perf "${sizes[@]}" --show-algo >"$table" 2>&1
  shows "$name" "algorithm, protocol and channels are known"
  ranks 2 all_reduce_perf "${sizes[@]}" --show-algo --show-prediction >"$table" 2>&1
  shows "$name +[0-9.]+ +[0-9.e+]+" "NCCL's prediction is known"
  ranks 2 all_gather_perf "${share_sizes[@]}" -R 2 --show-algo >"$table" 2>&1
  shows "$name" "fake hosts have no symmetric kernels, so an algorithm is known"
  ranks 2 alltoall_perf "${share_sizes[@]}" --show-algo >"$table" 2>&1
  shows 'p2p +- +[0-9-]+' "NCCL tells of transfers"
  NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,TUNING ranks 2 all_reduce_perf -b 8 -e 8 -n 1 --show-algo --show-prediction \
    >"$table" 2>&1
  says "PROFILER/Plugin: Loaded busbar (v"
  says "TUNER/Plugin: Using busbar prediction (v"

  printf '%s\n' 'allreduce,0,65536,ring,simple,1,-1,-1' 'allreduce,1048576,1048576,tree,ll,2,-1,-1' >"$csv"
  NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,TUNING NCCL_TUNER_PLUGIN=$tuner NCCL_TUNER_CONFIG_FILE=$csv \
    ranks 2 all_reduce_perf -b 64K -e 64K -n 2 --show-algo >"$table" 2>&1
  shows 'RING +SIMPLE +1' "the tuner's table has an effect"
  says "TUNER/Plugin: Using busbar tuner (v"
  NCCL_TUNER_PLUGIN=$tuner NCCL_TUNER_CONFIG_FILE=$csv ranks 2 all_reduce_perf -b 1M -e 1M -n 2 --show-algo >"$table" 2>&1
  shows 'TREE +LL +2' "the tuner's table has an effect"
}

no_device_api='error: (-D needs a library|the NCCL library|device API kernels \(-D\) are built for)'

# Fails where the library has another device API than the build, as $said then says.
device_api_runs() {
  expect "0 5" "$bin/all_reduce_perf" --backend nccl -R 2 -b 64 -e 64 -n 1 -T "$ranks_T" -D 1 >"$said" 2>&1
  cat "$said"
  ! grep -qE "$no_device_api" "$said"
}

# What NCCL's library or the GPU are too old for is no failure; a build that contradicts itself is.
stage_device() {
  local c d said=$logs/device_said.txt sizes=(--backend nccl -R 2 -b 64 -e 16M -f 64 -n 5 -T "$ranks_T")
  if ! device_api_runs && [[ -z ${NCCL_HOME:-} ]]; then
    NCCL_HOME=$(python_nccl_home)  # the loader's is of another kind than the header; a package's may fit
    export NCCL_HOME
    device_api_runs
  fi
  if grep -qE "$no_device_api" "$said"; then skip "$(sed -n 's/.*error: //p' "$said" | head -n 1)"; fi
  for c in all_reduce alltoall; do
    for d in 1 2; do
      run "$bin/${c}_perf" "${sizes[@]}" -D "$d" -d all
      run "$bin/${c}_perf" "${sizes[@]}" -D "$d" -V 1 -u 3 -m 3 -G 2
    done
    # By the switch, or over a network that GPUs drive: where there is one.
    for d in 3 4; do expect "0 5" "$bin/${c}_perf" "${sizes[@]}" -D "$d"; done
  done
  expect 5 "$bin/all_gather_perf" "${sizes[@]}" -D 1
}

why_not_large() {
  local mib
  mib=$(sed -nE 's/.*, ([0-9]+) MiB,.*/\1/p' <<<"${gpu_lines[0]}")
  if [[ -n $mib ]] && ((mib < 24576)); then echo "the GPU has $mib MiB, and this needs 24576"; fi
}

stage_large() {
  local table=$logs/large.txt once=(-n 1 -w 0 -c 1 -N 1 -d int8 --placement out --backend nccl -T "$ranks_T")
  run "$bin/all_reduce_perf" -b 5G -e 5G "${once[@]}"
  run "$bin/alltoall_perf" -b 9G -e 9G "${once[@]}"
  # The flipped bit is in the middle of what is checked, the second operation's.
  expect 7 "$bin/alltoall_perf" -b 9G -e 9G "${once[@]}" --inject rank=0,op=2,kind=flip >"$table" 2>&1
  cat "$table"
  says "first 4831838208 last 4831838208"
}

# breaks EXIT_CODE KIND OPERATION WORDS [OPTIONS...]: rank 1 of 2 breaks itself so at its OPERATION, the report has the
# words, NCCL logs into $nccl_logs.
breaks() {
  local want=$1 kind=$2 op=$3 words=$4
  shift 4
  table=$logs/hang_${kind}_$op.txt # of the stage, for says
  nccl_logs=$logs/nccl_${kind}_$op
  mkdir -p "$nccl_logs"
  # In the folder where the report is written.
  (cd "$logs" && NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,ENV,COLL NCCL_DEBUG_FILE=$nccl_logs/%h.%p \
    expect "$want" mpirun -n 2 --oversubscribe --bind-to none "$bin/all_reduce_perf" --backend nccl --ranks-per-gpu 2 \
    -b 1M -e 1M -T 10 --inject "rank=1,op=$op,kind=$kind" "$@" >"$table" 2>&1) || exit
  cat "$table"
  if ! grep -q '^ok: ' "$table"; then failures=$((failures + 1)); fi
  says "$words"
}

stage_hang() {
  local nccl_logs table
  local long=(-n 20 -N 0)
  breaks 4 stop 90 "hang: PROCESS_STOPPED: rank 1" "${long[@]}"
  says "NCCL's RAS" "not asked: RAS of NCCL"  # one that such a question can crash is not asked
  breaks 4 skip 90 "hang: RANK_LAGGING: rank 1" "${long[@]}"
  breaks 137 kill 90 "terminated: PROCESS_DEAD: rank 1" "${long[@]}"
  # One element fewer of 262144 is the same cells, chunks and lines to NCCL, which completes: nobody hangs, and calls
  # behind it repair the data. So it is compared before it is called, or is the checked call (1 is timed).
  breaks 6 count 90 "ARG_MISMATCH in all_reduce" "${long[@]}" --paranoid
  breaks 7 count 2 "rank" -n 1 -w 0 -c 1 -N 1
  # The logs of a job of two ranks: neither has the majority, but the mismatch is one.
  expect 4 "$bin/busbar" diagnose "$nccl_logs"
  run "$bin/busbar" diagnose --help-capture
}

# What is found is this machine's: that it is found, and in time, is what is checked.
stage_accept() {
  local share=(--backend nccl --ranks-per-gpu 4 -T "$ranks_T")
  expect "0 7" "$bin/busbar" doctor --local --verbose
  expect "0 7 8" mpirun -n 4 --oversubscribe --bind-to none "$bin/busbar" locate "${share[@]}" -b 1M --repetitions 3 --looks 1
  # Small sizes: four ranks take turns on the GPU.
  cat >"$logs/plan.yaml" <<'PLAN'
schema: 1
expect: {gpus: required}
stages: [doctor, per-host, pairs, whole]
defaults: {rel-ci: 10%, cell-time: 1, placement: out}
cells:
  - {name: inside, collective: all_reduce, stages: per-host, sizes: [8, 64K]}
  - {name: all, collective: all_gather, stages: whole, sizes: 64K}
PLAN
  expect "0 7 8" mpirun -n 4 --oversubscribe --bind-to none "$bin/busbar" accept "$logs/plan.yaml" "${share[@]}" \
    -J "$logs/accept.json" --report "$logs/accept.html"
}

why_not_sanitizer() { command -v compute-sanitizer >/dev/null || echo "no compute-sanitizer"; }

stage_sanitizer() {
  need "$tests/kernels_gpu"
  local tool said=$logs/sanitizer_said.txt
  for tool in memcheck racecheck; do
    # --error-exitcode: the sanitizer's own default is the program's exit code.
    run compute-sanitizer --tool "$tool" --error-exitcode 9 "$tests/kernels_gpu" >"$said" 2>&1
    cat "$said"
    # As on machines behind gVisor, which keep the debugger's way to the device closed.
    if grep -qE 'before first instrumented API call|Internal Sanitizer Error|Device not supported' "$said"; then
      skip "compute-sanitizer is refused the device: $(grep -m 1 '^=========.*[a-z]' "$said")"
    fi
  done
}

why_not_multi() { ((gpus > 1)) || echo "one GPU"; }

# Everything by -g; what time would cut off are repetitions by -t and by a rank per GPU.
stage_multi() {
  ranks_T=180  # 8 GPUs with an old driver have taken 55 s to start (NCCL's issue 1646)
  local c sizes=(-b 8 -e 64M -f 64 -n 5 -T "$ranks_T") by_g=(--backend nccl -g "$gpus") by_t=(--backend nccl -t "$gpus")
  local by_rank=(mpirun -n "$gpus" --oversubscribe --bind-to none)
  run "$bin/all_reduce_perf" "${by_g[@]}" "${sizes[@]}"
  run "$bin/all_reduce_perf" "${by_g[@]}" -G 2 -R 2 "${sizes[@]}"
  for c in all_gather alltoall; do run "$bin/${c}_perf" "${by_g[@]}" -x 2 -R 2 "${sizes[@]}"; done
  for c in all_reduce alltoall; do expect "0 5" "$bin/${c}_perf" "${by_g[@]}" -D 2 -R 2 "${sizes[@]}"; done
  run "$bin/pingpong_perf" "${by_g[@]}" --pattern both --pairs all "${sizes[@]}"
  local table=$logs/multi_algo.txt
  run env -u NCCL_DEBUG "$bin/all_reduce_perf" "${by_g[@]}" -R 2 --show-algo "${sizes[@]}" >"$table" 2>&1
  shows '[A-Z][A-Za-z_]+ +(LL|LL128|SIMPLE|sym) +([0-9]+|-)' "algorithm or symmetric kernel are known"
  run "$bin/comm_perf" "${by_g[@]}" -n 5 -T "$ranks_T"
  for c in "${collectives[@]}"; do
    if [[ $c != all_reduce ]]; then run "$bin/${c}_perf" "${by_g[@]}" "${sizes[@]}"; fi
  done

  run "$bin/all_reduce_perf" "${by_t[@]}" "${sizes[@]}"
  run "$bin/hypercube_perf" "${by_t[@]}" -p 1 -m 3 "${sizes[@]}"

  run "${by_rank[@]}" "$bin/all_reduce_perf" --backend nccl "${sizes[@]}"
  run "${by_rank[@]}" "$bin/alltoallv_perf" --backend nccl -R 1 "${sizes[@]}"
  for c in all_reduce alltoall; do
    expect "0 5" "${by_rank[@]}" "$bin/${c}_perf" --backend nccl -D 4 -R 2 "${sizes[@]}"
  done
  run "${by_rank[@]}" "$bin/comm_perf" --backend nccl -n 5 -T "$ranks_T"
}

# The frame. ----------------------------------------------------------------------------------------------------------
list_stages() {
  local s name part limit where what
  for s in "${stages[@]}"; do
    # shellcheck disable=SC2034  # $where: between those that are asked for
    read -r name part limit where what <<<"$s"
    printf '%-10s part %d, at most %3d s: %s\n' "$name" "$part" "$limit" "$what"
  done
}

refuse() {
  echo "gpu_check.sh: $*" >&2
  exit 255
}

# Whether the executables find a libnccl without NCCL_HOME.
loader_has_nccl() {
  local folders folder known
  IFS=: read -ra folders <<<"${LD_LIBRARY_PATH:-}"
  for folder in "$root/lib" "${folders[@]}"; do
    if [[ -n $folder && -e $folder/libnccl.so.2 ]]; then return 0; fi
  done
  known=$(PATH="$PATH:/usr/sbin:/sbin" ldconfig -p 2>/dev/null)
  [[ $known == *libnccl.so.2* ]]
}

# The folder of the package nvidia.nccl of the first python3 on PATH that has it with a library; finding a package runs
# no code of it.
python_nccl_home() {
  local python home
  while read -r python; do
    while read -r home; do
      if [[ -e $home/lib/libnccl.so.2 ]]; then
        echo "$home"
        return
      fi
    done < <("$python" -c 'from importlib.util import find_spec
print(*find_spec("nvidia.nccl").submodule_search_locations, sep="\n")' 2>/dev/null </dev/null)
  done < <(type -aP python3)
}

# What CUDA shows to our programs: nvidia-smi, where there is one, knows nothing of CUDA_VISIBLE_DEVICES and MIG. It is
# asked where the build has no such program.
list_gpus() {
  local lines got=0
  lines=$(timeout -k 5 "$facts_s" "${launcher[@]}" "$tests/kernels_gpu" --gpus 2>&1) || got=$?
  if ((got == 77)) || [[ $got == 0 && -n $lines ]]; then
    echo "$lines"
  else
    nvidia-smi --query-gpu=index,name,driver_version,memory.total,pci.bus_id,compute_mode --format=csv,noheader
  fi
}

# for_chosen_stages COMMAND: calls it with name, part, limit and GPUs of each.
for_chosen_stages() {
  local s name part limit where
  for s in "${stages[@]}"; do
    read -r name part limit where _ <<<"$s"
    if [[ -n $chosen_part && $part != "$chosen_part" ]]; then continue; fi
    if ((${#chosen[@]} > 0)) && [[ " ${chosen[*]} " != *" $name "* ]]; then continue; fi
    "$1" "$name" "$part" "$limit" "$where"
  done
}

print_facts() {
  echo "host      $(hostname), $(nproc) CPUs, $(awk '/^MemTotal/ {printf "%.0f GiB", $2 / 1048576}' /proc/meminfo)"
  echo "build     $bin"
  printf 'GPU       %s\n' "${gpu_lines[@]}"
  nvidia-smi 2>/dev/null |
    sed -nE 's/.*Driver Version: *([0-9.]+).*CUDA Version: *([0-9.]+).*/driver    \1, CUDA \2 at most/p'
  echo "NCCL      $nccl${NCCL_HOME:+, NCCL_HOME=$NCCL_HOME}"
}

# Sets nccl to the version of NCCL's library or to why it does not run, and no_nccl where none can be used. A Python
# package's is taken where the loader has none, or one that is too old.
find_nccl() {
  local of_package is_loaders=0
  if [[ -z ${NCCL_HOME:-} ]]; then
    if loader_has_nccl; then is_loaders=1; else NCCL_HOME=$(python_nccl_home); fi
    export NCCL_HOME
  fi
  nccl=$(nccl_version)
  if ((is_loaders)) && [[ $nccl == *"the NCCL library"* ]]; then
    NCCL_HOME=$(python_nccl_home)
    of_package=$(nccl_version)
    if [[ $of_package == *"the NCCL library"* ]]; then NCCL_HOME=""; else nccl=$of_package; fi
  fi
  if [[ $nccl == *"the NCCL library"* ]]; then no_nccl="the NCCL library${nccl##*the NCCL library}"; fi
}

# As the suite finds it: its own header says so.
nccl_version() {
  local text
  text=$(timeout -k 5 "$facts_s" "${launcher[@]}" "$bin/all_reduce_perf" --backend nccl -b 8 -e 8 -n 1 -w 0 -c 0 2>&1) || {
    local got=$?
    echo "does not run: $(grep -m 1 'error' <<<"$text" || echo "ended with $got (124: no answer in $facts_s s)")"
    return
  }
  text=$(sed -n 's/^# .*NCCL \([0-9][0-9.]*\).*/\1/p' <<<"$text" | head -n 1)
  echo "${text:-of unknown version}"
}

# why_not NAME GPUS: why a stage cannot run here; nothing where it can.
why_not() {
  local mode=${gpu_lines[0]:-}
  mode=${mode##*, }
  if ((gpus == 0)); then
    echo "no GPU"
  elif [[ $mode == Prohibited ]]; then
    echo "compute mode Prohibited: no program may use GPU 0"
  elif [[ $2 == shared && $mode == Exclusive_* ]]; then
    echo "compute mode $mode: one process per GPU"
  elif [[ -n $no_nccl && " kernels bench sanitizer " != *" $1 "* ]]; then
    echo "$no_nccl"
  elif declare -F "why_not_$1" >/dev/null; then
    "why_not_$1"
  fi
}

# need_s NAME LIMIT: how long a stage may take: its limit, or what it once took and half of that, in --estimates.
need_s() {
  local took=""
  if [[ -n $estimates ]]; then
    took=$(sed -nE "s/.*\"name\": \"$1\".*\"result\": \"PASS\", \"seconds\": ([0-9]+).*/\1/p" "$estimates")
  fi
  if [[ -n $took ]] && ((took * 3 / 2 + 5 < $2)); then
    echo $((took * 3 / 2 + 5))
  else
    echo "$2"
  fi
}

json_text() {
  local text=${1//\\/\\\\}
  text=${text//\"/\\\"}
  printf '"%s"' "${text//[[:cntrl:]]/ }"
}

# write_json RESULT EXIT_CODE: all that is known so far, one stage a line (need_s reads them so).
write_json() {
  local i
  [[ -n $json ]] || return 0
  {
    printf '{"tool": "gpu_check", "schema": 1, "host": %s, "gpus": [' "$(json_text "$(hostname)")"
    for i in "${!gpu_lines[@]}"; do
      if ((i > 0)); then printf ', '; fi
      json_text "${gpu_lines[i]}"
    done
    printf '], "seconds": %d, "result": "%s", "exit_code": %d, "stages": [\n' "$SECONDS" "$1" "$2"
    for i in "${!json_stages[@]}"; do
      if ((i > 0)); then printf ',\n'; fi
      printf '%s' "${json_stages[i]}"
    done
    printf '\n]}\n'
  } >"$json.tmp" && mv "$json.tmp" "$json"
}

# tell_dry_run NAME PART LIMIT WHERE
tell_dry_run() {
  local why on="GPU 0" need
  need=$(need_s "$1" "$3")
  why=$(why_not "$1" "$4")
  if [[ $4 == all ]] && ((gpus > 1)); then on="GPUs 0 to $((gpus - 1))"; fi
  if [[ -z $why ]] && ((need > dry_left)); then
    why="no time left: it may take $need s, and $dry_left s are left"
    late=1
  fi
  if [[ -z $why ]]; then
    dry_left=$((dry_left - need))
    printf '%-10s part %d, at most %3d s: on %s\n' "$1" "$2" "$need" "$on"
  else
    printf '%-10s part %d, not run: %s\n' "$1" "$2" "$why"
  fi
}

# Runs one stage and adds a line to the summary; one that could be cut short by the end of all is not begun.
run_stage() {
  local name=$1 part=$2 limit=$3 where=$4 log=$logs/$1.log begin=$SECONDS left=$((total_s - SECONDS))
  local result=PASS code=0 note need
  need=$(need_s "$name" "$limit")
  note=$(why_not "$name" "$where")
  if [[ -n $note ]]; then
    echo "SKIP: $note" >"$log"
    code=77
    if [[ $note == "$no_nccl" ]]; then lacking=1; fi
  elif ((left < need)); then
    echo "NOT RUN: no time left: it may take $need s, and $((left > 0 ? left : 0)) s are left" >"$log"
    code=8
  else
    if ((limit > left)); then limit=$left; fi
    (
      stage_end=$((SECONDS + limit))
      "stage_$name"
      exit $((failures > 0))
    ) >"$log" 3>&1 2>&1 || code=$?
  fi
  case $code in
    0) ;;
    8) result=SKIP late=1 note=$(sed -nE 's/^(NOT RUN|CUT SHORT)[:,] //p' "$log") ;;
    77) result=SKIP note=$(sed -n 's/^SKIP: //p' "$log") ;;
    *) result=FAIL bad=1 note=$(grep -c '^FAILED' "$log")" failed, first: $(grep -m 1 '^FAILED' "$log")" ;;
  esac
  summary+=("$(printf '%-4s %-10s %4d s  %s%s' "$result" "$name" $((SECONDS - begin)) "$log" "${note:+  ($note)}")")
  echo "${summary[-1]}"
  json_stages+=("$(printf '  {"name": "%s", "part": %d, "result": "%s", "seconds": %d, "log": %s, "note": %s}' \
    "$name" "$part" "$result" $((SECONDS - begin)) "$(json_text "$log")" "$(json_text "$note")")")
  write_json RUNNING 8
  # The figures are what the stage is for.
  if [[ $name == bench && $result == PASS ]]; then sed 's/^/     /' "$log"; fi
}

logs=""
json=""
estimates=""
recorded=""
dry_run=0
chosen_part=""
chosen=()
while (($# > 0)); do
  case $1 in
    --list) list_stages && exit 0 ;;
    --logs) logs=${2:-}; shift; [[ -n $logs ]] || refuse "--logs needs a directory" ;;
    --dry-run) dry_run=1 ;;
    --json) json=${2:-}; shift; [[ -n $json ]] || refuse "--json needs a file" ;;
    --estimates) estimates=${2:-}; shift; [[ -r $estimates ]] || refuse "--estimates needs a file of --json" ;;
    --recorded) recorded=${2:-}; shift; [[ -r $recorded ]] || refuse "--recorded needs a file" ;;
    --part) chosen_part=${2:-}; shift; [[ $chosen_part == [123] ]] || refuse "--part needs 1, 2 or 3" ;;
    --time) total_s=${2:-}; shift; [[ $total_s =~ ^[1-9][0-9]*$ ]] || refuse "--time needs seconds" ;;
    -h | --help) sed -n '2,11s/^# //p' "${BASH_SOURCE[0]}" && exit 0 ;;
    *) chosen+=("$1") ;;
  esac
  shift
done
for name in "${chosen[@]}"; do
  if ! declare -F "stage_$name" >/dev/null; then
    refuse "no stage is called '$name'; there are:
$(list_stages)"
  fi
done
if [[ -n $chosen_part ]] && ((${#chosen[@]} > 0)); then refuse "--part and names of stages exclude each other"; fi

if [[ -n $recorded ]] && ((!dry_run)); then refuse "--recorded goes with --dry-run alone"; fi

seen=$(if [[ -n $recorded ]]; then cat "$recorded"; else list_gpus 2>/dev/null; fi)
mapfile -t gpu_lines < <(sed -nE 's/^(GPU +)?([0-9]+,.*)/\2/p' <<<"$seen")
gpus=${#gpu_lines[@]}
bad=0
late=0
nccl=""
no_nccl=""
lacking=0  # a stage was skipped for want of NCCL
if ((dry_run)); then
  echo "${gpus} GPUs${recorded:+, of $recorded}"
  if ((gpus > 0)); then printf '%s\n' "${gpu_lines[@]}"; fi
  dry_left=$((total_s - facts_s))
  for_chosen_stages tell_dry_run
  exit $((gpus == 0 ? 5 : late ? 8 : 0))
fi
if ((gpus == 0)); then
  echo "gpu_check.sh: no GPU here: ${seen:-nvidia-smi shows none}" >&2
  write_json "NO GPU" 5
  exit 5
fi
if [[ ! -x $bin/all_reduce_perf ]]; then
  refuse "$bin/all_reduce_perf is not there: run make, or set BUSBAR_BUILD"
fi
: "${logs:=$(mktemp -d "${TMPDIR:-/tmp}/busbar_gpu_check.XXXXXX")}"
mkdir -p "$logs"
logs=$(cd "$logs" && pwd)

find_nccl
print_facts | tee "$logs/facts.log"
summary=()
json_stages=()
for_chosen_stages run_stage
echo
echo "Summary, $SECONDS s:"
printf '%s\n' "${summary[@]}" | tee "$logs/summary.log"
if ((bad)); then
  write_json FAIL 1
  echo "gpu_check: FAIL"
  exit 1
elif ((lacking)); then
  write_json "NO NCCL" 5
  echo "gpu_check: INCOMPLETE: $no_nccl"
  exit 5
elif ((late)); then
  write_json INCOMPLETE 8
  echo "gpu_check: INCOMPLETE: for the rest, --part 2, --part 3, more --time or the names of stages"
  exit 8
fi
write_json PASS 0
echo "gpu_check: PASS"
