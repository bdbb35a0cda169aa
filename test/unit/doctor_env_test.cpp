// Would catch: a slip in a variable's name that nobody sees, a value that the device or NCCL takes otherwise than
// meant, a launcher's own variables taken for a difference between ranks.

#include "common/machine/mapped_nccl.h"
#include "driver/doctor/checks.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <string>
#include <vector>

using namespace busbar;
using Catch::Contains;

namespace {

Rows rows_of(const std::string& recording) {
  Rows rows;
  check_environment(probe_recorded(recording, "test"), rows);
  return rows;
}

/// Those that are not OK, as "check subject OUTCOME".
std::vector<std::string> told(const Rows& rows) {
  std::vector<std::string> lines;
  for (const DoctorRow& row : rows) {
    if (row.outcome != Outcome::pass) lines.push_back(row.check + " " + row.subject + " " + name(row.outcome));
  }
  return lines;
}

const DoctorRow& find(const Rows& rows, const std::string& check, const std::string& subject) {
  const auto found = std::find_if(rows.begin(), rows.end(),
                                  [&](const DoctorRow& row) { return row.check == check && row.subject == subject; });
  INFO(check << " " << subject);
  REQUIRE(found != rows.end());
  return *found;
}

Remark value_of(const char* name, const char* value, JobShape job = {8, 16}) {
  return judge_nccl_value(name, value, 0, job);
}

}  // namespace

TEST_CASE("The table of NCCL's names is sorted, whole and has what everybody sets", "[doctor][env]") {
  const auto& names = setting_rules().nccl;
  CHECK(names.size() == 306);
  CHECK(std::is_sorted(names.begin(), names.end(), [](const auto& a, const auto& b) { return a.name < b.name; }));
  for (const char* one :
       {"NCCL_DEBUG", "NCCL_IB_HCA", "NCCL_SOCKET_IFNAME", "NCCL_NET_GDR_LEVEL", "NCCL_IB_TC", "NCCL_NVLS_ENABLE",
        "NCCL_P2P_LEVEL", "NCCL_TOPO_FILE", "NCCL_NET_PLUGIN", "NCCL_CONF_FILE"}) {
    INFO(one);
    CHECK(judge_nccl_name(one, 0).outcome == Outcome::pass);
  }
}

TEST_CASE("A version is read, and what is none is not", "[doctor][env]") {
  CHECK(nccl_version_number("2.28.9") == 22809);
  CHECK(nccl_version_number("2.4.8+cuda10.1") == 20408);
  CHECK(nccl_version_number("2.28") == 0);
  CHECK(nccl_version_number("") == 0);
  CHECK(nccl_version_number("unknown") == 0);
}

TEST_CASE("A name that no NCCL reads is told with the one that was meant", "[doctor][env]") {
  struct Case {
    const char* name;
    const char* reason;
    const char* remedy;
  };
  const Case one =
      GENERATE(Case{"NCCL_IB_DISBALE", "no NCCL", "did you mean NCCL_IB_DISABLE?"},
               Case{"NCCL_SOCKET_IFNAMES", "no NCCL", "did you mean NCCL_SOCKET_IFNAME?"},
               Case{"NCCL_DEBG", "no NCCL", "did you mean NCCL_DEBUG?"},
               Case{"NCCL_WHOLLY_UNKNOWN_THING", "no NCCL", "unset it"},
               Case{"NCCL_TIMEOUT", "no timeout", "init_process_group"},
               Case{"NCCL_ASYNC_ERROR_HANDLING", "PyTorch's", "TORCH_NCCL_ASYNC_ERROR_HANDLING"},
               Case{"NCCL_BLOCKING_WAIT", "PyTorch's", "TORCH_NCCL_BLOCKING_WAIT"},
               Case{"NCCL_IB_CUDA_SUPPORT", "2.3.7 was the last", "unset"},
               Case{"NCCL_SHM_USE_CUDA_MEMCPY", "2.30.4 was the last", "unset"},
               Case{"NCCL_SINGLE_RING_THRESHOLD", "no NCCL since 2.3.5", "unset"},
               Case{"NCCL_MAX_NCHANNELS", "deprecated since NCCL 2.17", "NCCL_MAX_CTAS"},
               Case{"NCCL_CHECK_POINTERS", "deprecated since NCCL 2.29.7", "NCCL_CHECK_MODE"},
               Case{"NCCL_GIN_QUEUE_DEPTH", "no NCCL", ""}, Case{"NCCL_SYM_CTAS", "undocumented", "unset"});
  INFO(one.name);
  const Remark verdict = judge_nccl_name(one.name, 0);
  CHECK(verdict.outcome == Outcome::warn);
  CHECK_THAT(verdict.reason, Contains(one.reason));
  CHECK_THAT(verdict.remedy, Contains(one.remedy));
}

TEST_CASE("Names are judged by the NCCL in use", "[doctor][env]") {
  CHECK(judge_nccl_name("NCCL_WORK_FIFO_DEPTH", 22105).reason.find("undocumented") != std::string::npos);
  CHECK_THAT(judge_nccl_name("NCCL_WORK_FIFO_DEPTH", 22203).reason, Contains("2.21.5 was the last"));
  CHECK_THAT(judge_nccl_name("NCCL_NVLS_ENABLE", 21602).reason, Contains("2.17.1 was the first"));
  CHECK(judge_nccl_name("NCCL_NVLS_ENABLE", 22809).outcome == Outcome::pass);
  // Newer than the table: nothing is known to be removed but what already was.
  CHECK(judge_nccl_name("NCCL_ALGO", 23502).outcome == Outcome::pass);
}

TEST_CASE("What containers, builds, plugins and nccl-tests set is not a slip", "[doctor][env]") {
  for (const char* one : {"NCCL_VERSION", "NCCL_HOME", "NCCL_ROOT", "NCCL_INCLUDE_DIR", "NCCL_TESTS_SPLIT",
                          "NCCL_FASTRAK_NUM_FLOWS", "NCCL_IB_PKEY", "NCCL_TUNER_CONFIG_FILE"}) {
    INFO(one);
    CHECK(judge_nccl_name(one, 22809).outcome == Outcome::pass);
  }
}

TEST_CASE("Values that cannot be meant are told", "[doctor][env]") {
  struct Case {
    const char* name;
    const char* value;
    Outcome outcome;
    const char* reason;
  };
  const Case one = GENERATE(
      Case{"NCCL_IB_TIMEOUT", "1000", Outcome::fail, "5 bits"}, Case{"NCCL_IB_TIMEOUT", "32", Outcome::fail, "5 bits"},
      Case{"NCCL_IB_TIMEOUT", "0", Outcome::warn, "forever"},
      Case{"NCCL_IB_TIMEOUT", "23", Outcome::warn, "241 s"},  // 4.096e-6 x 2^23 x 7
      Case{"NCCL_IB_RETRY_CNT", "15", Outcome::fail, "0..7"}, Case{"NCCL_IB_TC", "106x", Outcome::fail, "reads 106"},
      Case{"NCCL_IB_TC", "105", Outcome::warn, "congestion"}, Case{"NCCL_IB_TC", "300", Outcome::fail, "0..255"},
      Case{"NCCL_BUFFSIZE", "4M", Outcome::fail, "reads 4"},
      Case{"NCCL_BUFFSIZE", "5000000", Outcome::warn, "power of two"},
      Case{"NCCL_BUFFSIZE", "4", Outcome::fail, "far too few"},
      Case{"NCCL_IB_DISABLE", "true", Outcome::warn, "not a number"},
      Case{"NCCL_ALGO", "Rnig", Outcome::fail, "'Rnig'"}, Case{"NCCL_ALGO", "Ring,", Outcome::warn, "empty"},
      Case{"NCCL_ALGO", "allreduce:Tre", Outcome::fail, "'Tre'"}, Case{"NCCL_PROTO", "LL126", Outcome::fail, "'LL126'"},
      Case{"NCCL_DEBUG", "INF", Outcome::warn, "'INF'"},
      Case{"NCCL_DEBUG_SUBSYS", "INIT,GRAHP", Outcome::warn, "'GRAHP'"},
      Case{"NCCL_P2P_LEVEL", "2", Outcome::warn, "every version"},
      Case{"NCCL_NET_GDR_LEVEL", "PHX", Outcome::warn, "'PHX'"},
      Case{"NCCL_DEBUG_FILE", "/tmp/nccl.%h.%d", Outcome::fail, "%d"},
      Case{"NCCL_DEBUG_FILE", "/tmp/nccl.%h", Outcome::fail, "%p"},
      Case{"NCCL_IB_GID_INDEX", "3", Outcome::warn, "2.21"});
  INFO(one.name << "=" << one.value);
  const Remark verdict = value_of(one.name, one.value);
  CHECK(verdict.outcome == one.outcome);
  CHECK_THAT(verdict.reason, Contains(one.reason));
  CHECK(!verdict.remedy.empty());
}

TEST_CASE("A slip in a word is told with the word that was meant", "[doctor][env]") {
  CHECK_THAT(value_of("NCCL_ALGO", "Rnig").remedy, Contains("Ring?"));
  CHECK_THAT(value_of("NCCL_ALGO", "^nvlstre").remedy, Contains("NVLSTree?"));
  CHECK_THAT(value_of("NCCL_PROTO", "simpel").remedy, Contains("Simple?"));
  CHECK_THAT(value_of("NCCL_ALGO", "recursive_doubling").remedy, Contains("one of Tree, Ring"));
}

TEST_CASE("Values that are fine are left alone", "[doctor][env]") {
  struct Case {
    const char* name;
    const char* value;
  };
  const Case one = GENERATE(
      Case{"NCCL_IB_TIMEOUT", "22"}, Case{"NCCL_IB_TIMEOUT", "-1"}, Case{"NCCL_IB_RETRY_CNT", "7"},
      Case{"NCCL_IB_TC", "106"}, Case{"NCCL_IB_TC", "0x6a"}, Case{"NCCL_BUFFSIZE", "8388608"},
      Case{"NCCL_ALGO", "ring,TREE"}, Case{"NCCL_ALGO", "^NVLS,NVLSTree"},
      Case{"NCCL_ALGO", "ring;allreduce:tree,collnetdirect;broadcast:ring"}, Case{"NCCL_PROTO", "^LL"},
      Case{"NCCL_DEBUG", "info"}, Case{"NCCL_DEBUG_SUBSYS", "^INIT,NET"},
      Case{"NCCL_DEBUG_SUBSYS", "SOMETHING_OF_TOMORROW"}, Case{"NCCL_P2P_LEVEL", "NVL"},
      Case{"NCCL_DEBUG_FILE", "/tmp/nccl.%h.%p"}, Case{"NCCL_DEBUG_FILE", "/dev/stderr"},
      Case{"NCCL_IB_GID_INDEX", "-1"}, Case{"NCCL_NET", "AWS Libfabric"}, Case{"NCCL_CTA_POLICY", "DEFAULT|EFFICIENCY"},
      Case{"NCCL_IB_DISABLE", "0"}, Case{"NCCL_THREAD_THRESHOLDS", "64 8 32"});
  INFO(one.name << "=" << one.value);
  CHECK(value_of(one.name, one.value).outcome == Outcome::pass);
}

TEST_CASE("A log file without %p is wrong only where processes share a host", "[doctor][env]") {
  CHECK(value_of("NCCL_DEBUG_FILE", "/tmp/log", {1, 4}).outcome == Outcome::pass);
  CHECK(value_of("NCCL_DEBUG_FILE", "/tmp/log", {}).outcome == Outcome::warn);
  CHECK(judge_nccl_value("NCCL_IB_GID_INDEX", "3", 21805, {}).outcome == Outcome::pass);
}

TEST_CASE("The job's shape is what its launcher says", "[doctor][env]") {
  CHECK(job_shape({{"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}, {"OMPI_COMM_WORLD_SIZE", "4"}}).one_host());
  CHECK_FALSE(job_shape({{"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}, {"OMPI_COMM_WORLD_SIZE", "8"}}).one_host());
  CHECK(job_shape({{"SLURM_NTASKS_PER_NODE", "1"}, {"SLURM_NTASKS", "8"}}).one_per_host());
  CHECK_FALSE(job_shape({}).one_host());
  CHECK_FALSE(job_shape({{"OMPI_COMM_WORLD_LOCAL_SIZE", "many"}}).one_per_host());
}

TEST_CASE("Forced slow paths are always told, and one of them fails", "[doctor][env]") {
  for (const auto& [name, value] : std::vector<std::pair<const char*, const char*>>{{"NCCL_P2P_DISABLE", "1"},
                                                                                    {"NCCL_SHM_DISABLE", "1"},
                                                                                    {"NCCL_IB_DISABLE", "1"},
                                                                                    {"NCCL_NET", "Socket"},
                                                                                    {"NCCL_NVLS_ENABLE", "0"},
                                                                                    {"NCCL_MAX_NCHANNELS", "2"},
                                                                                    {"NCCL_LAUNCH_MODE", "GROUP"},
                                                                                    {"NCCL_CROSS_NIC", "0"},
                                                                                    {"CUDA_LAUNCH_BLOCKING", "1"},
                                                                                    {"NCCL_CUMEM_ENABLE", "0"},
                                                                                    {"NCCL_NET_GDR_LEVEL", "LOC"},
                                                                                    {"NCCL_ALGO", "Ring"}}) {
    INFO(name << "=" << value);
    CHECK(judge_slow_setting(name, value).outcome == Outcome::warn);
  }
  for (const auto& [name, value] : std::vector<std::pair<const char*, const char*>>{{"NCCL_P2P_DISABLE", "0"},
                                                                                    {"NCCL_NET", "IB"},
                                                                                    {"NCCL_NVLS_ENABLE", "1"},
                                                                                    {"NCCL_MAX_NCHANNELS", "32"},
                                                                                    {"NCCL_CROSS_NIC", "2"},
                                                                                    {"CUDA_LAUNCH_BLOCKING", "0"},
                                                                                    {"NCCL_CUMEM_ENABLE", "1"},
                                                                                    {"NCCL_ALGO", ""},
                                                                                    {"NCCL_IGNORE_NET_MISMATCH", "0"},
                                                                                    {"PATH", "1"}}) {
    INFO(name << "=" << value);
    CHECK(judge_slow_setting(name, value).outcome == Outcome::pass);
  }
  CHECK(judge_slow_setting("NCCL_IGNORE_NET_MISMATCH", "1").outcome == Outcome::fail);
}

TEST_CASE("A file of settings is read as NCCL reads it", "[doctor][env]") {
  const auto lines = parse_nccl_conf("# note\nNCCL_DEBUG=INFO\n\nnothing\nNCCL_IB_HCA ==mlx5_0\n NCCL_X=1");
  REQUIRE(lines.size() == 3);
  CHECK(lines[0].line == 2);
  CHECK(lines[0].name == "NCCL_DEBUG");
  CHECK(lines[0].value == "INFO");
  CHECK(lines[1].name == "NCCL_IB_HCA ");
  CHECK(lines[1].value == "=mlx5_0");
  CHECK(lines[2].name == " NCCL_X");
}

TEST_CASE("What is set first stays: environment, own file, then /etc/nccl.conf", "[doctor][env]") {
  const Probe probe = probe_recorded(
      "env HOME=/users/u\nenv NCCL_DEBUG=WARN\n"
      "file /users/u/.nccl.conf NCCL_DEBUG=INFO\\nNCCL_NTHREADS=256\n"
      "file /etc/nccl.conf NCCL_NTHREADS=512\\nNCCL_IB_TIMEOUT=1000\n",
      "test");
  const auto settings = nccl_settings(probe, nccl_conf_files(probe));
  CHECK(settings.at("NCCL_DEBUG").value == "WARN");
  CHECK(settings.at("NCCL_DEBUG").origin.empty());
  CHECK(settings.at("NCCL_NTHREADS").value == "256");
  CHECK(settings.at("NCCL_NTHREADS").origin == "/users/u/.nccl.conf");
  Rows rows;
  check_environment(probe, rows);
  CHECK_THAT(find(rows, "env.range", "NCCL_IB_TIMEOUT").reason, Contains("set in /etc/nccl.conf"));
  CHECK(find(rows, "env.file", "/etc/nccl.conf").value == "NCCL_NTHREADS=512 NCCL_IB_TIMEOUT=1000");
}

TEST_CASE("A file that is named but not there, and one with spaces, are told", "[doctor][env]") {
  const Rows rows = rows_of("env NCCL_CONF_FILE=/nowhere/nccl.conf\nfile /etc/nccl.conf NCCL_DEBUG = INFO\n");
  CHECK(find(rows, "env.file", "/nowhere/nccl.conf").outcome == Outcome::warn);
  CHECK_THAT(find(rows, "env.file", "/etc/nccl.conf").reason, Contains("line 1"));
  CHECK(told(rows_of("env NCCL_CONF_FILE=/x/nccl.conf\nfile /x/nccl.conf NCCL_DEBUG=INFO\n")).empty());
}

TEST_CASE("Values that decide what ranks send must agree", "[doctor][env]") {
  const Rows rows = rows_of(
      "env NCCL_BUFFSIZE=8388608\nenv NCCL_IB_SL=1\nenv NCCL_DEBUG=WARN\nenv UCX_TLS=rc\n"
      "env FI_PROVIDER=efa\nenv OMPI_MCA_coll_tuned_use_dynamic_rules=1\n");
  CHECK(told(rows).empty());
  for (const DoctorRow& row : rows) CHECK(row.must_agree);
  CHECK(find(rows, "env.value", "NCCL_BUFFSIZE").if_differs == Outcome::fail);
  CHECK(find(rows, "env.value", "NCCL_IB_SL").if_differs == Outcome::fail);
  CHECK(find(rows, "env.value", "NCCL_DEBUG").if_differs == Outcome::warn);
  CHECK(find(rows, "env.value", "UCX_TLS").if_differs == Outcome::warn);
  CHECK(find(rows, "env.value", "OMPI_MCA_coll_tuned_use_dynamic_rules").value == "1");
}

TEST_CASE("What a launcher sets for every process is not compared", "[doctor][env]") {
  // As `mpirun -n 4 env` of Open MPI 4.1 shows them.
  const Rows rows = rows_of(
      "env OMPI_COMM_WORLD_RANK=3\nenv OMPI_COMM_WORLD_LOCAL_RANK=1\nenv OMPI_COMM_WORLD_NODE_RANK=1\n"
      "env OMPI_FILE_LOCATION=/tmp/x/0/3\nenv OMPI_MCA_ess=^singleton\nenv OMPI_MCA_ess_base_vpid=3\n"
      "env OMPI_MCA_orte_ess_node_rank=1\nenv OMPI_MCA_orte_local_daemon_uri=1.2;tcp://10.0.0.1:4\n"
      "env OMPI_MCA_orte_top_session_dir=/tmp/ompi.n1.0\nenv OMPI_MCA_initial_wdir=/root\n"
      "env OMPI_MCA_pmix=^s1,s2,cray,isolated\nenv OMPI_MCA_shmem_RUNTIME_QUERY_hint=mmap\n"
      "env OMPI_MCA_routed=radix\nenv OMPI_MCA_mpi_oversubscribe=1\nenv OMPI_UNIVERSE_SIZE=4\nenv PMIX_RANK=3\nenv "
      "PMIX_ID=1.3\n"
      "env PMIX_HOSTNAME=n1\nenv NCCL_HOSTID=n1\nenv NCCL_DEBUG_FILE=/tmp/%h.%p\nenv SLURM_PROCID=3\n");
  CHECK(rows.empty());
}

TEST_CASE("A list of devices is taken as NCCL takes it", "[doctor][env]") {
  const std::vector<std::string> there{"mlx5_0", "mlx5_1", "mlx5_10", "mlx5_bond_0"};
  using Names = std::vector<std::string>;
  CHECK(taken_by_list("mlx5_1", there) == Names{"mlx5_1", "mlx5_10"});
  CHECK(taken_by_list("=mlx5_1", there) == Names{"mlx5_1"});
  CHECK(taken_by_list("=mlx5_0:1,mlx5_1:1", there) == Names{"mlx5_0", "mlx5_1"});
  CHECK(taken_by_list("^mlx5_1", there) == Names{"mlx5_0", "mlx5_bond_0"});
  CHECK(taken_by_list("^=mlx5_1", there) == Names{"mlx5_0", "mlx5_10", "mlx5_bond_0"});
  CHECK(taken_by_list("mlx4", there).empty());
}

TEST_CASE("NCCL_IB_HCA is held against the host's devices", "[doctor][env]") {
  const std::string devices =
      "folder /sys/class/infiniband/mlx5_0\nfolder /sys/class/infiniband/mlx5_1\n"
      "folder /sys/class/infiniband/mlx5_10\n";
  DoctorRow row = find(rows_of(devices + "env NCCL_IB_HCA=mlx5_1\n"), "env.hca", "NCCL_IB_HCA");
  CHECK(row.outcome == Outcome::warn);
  CHECK_THAT(row.reason, Contains("mlx5_10 is taken without being named"));
  CHECK_THAT(row.remedy, Contains("\"=mlx5_1\""));
  row = find(rows_of(devices + "env NCCL_IB_HCA=mlx4\n"), "env.hca", "NCCL_IB_HCA");
  CHECK(row.outcome == Outcome::fail);
  row = find(rows_of(devices + "env NCCL_IB_HCA==mlx5_0,mlx5_1\n"), "env.hca", "NCCL_IB_HCA");
  CHECK(row.outcome == Outcome::pass);
  CHECK(row.value == "=mlx5_0,mlx5_1 takes mlx5_0 mlx5_1");
  row = find(rows_of("env NCCL_IB_HCA=mlx5\n"), "env.hca", "NCCL_IB_HCA");
  CHECK(row.outcome == Outcome::warn);
}

TEST_CASE("NCCL_IB_HCA that takes only dead ports, or slower ones too, is told", "[doctor][env]") {
  const std::string ports =
      "file /sys/class/infiniband/mlx5_0/ports/1/state 4: ACTIVE\n"
      "file /sys/class/infiniband/mlx5_0/ports/1/rate 400 Gb/sec (4X NDR)\n"
      "file /sys/class/infiniband/mlx5_1/ports/1/state 1: DOWN\n"
      "file /sys/class/infiniband/mlx5_1/ports/1/rate 10 Gb/sec (4X SDR)\n"
      "file /sys/class/infiniband/mlx5_2/ports/1/state 4: ACTIVE\nfile /sys/class/infiniband/mlx5_2/ports/1/rate 25 "
      "Gb/sec "
      "(1X EDR)\n";
  const auto of = [&](const std::string& value) {
    return find(rows_of(ports + "env NCCL_IB_HCA=" + value + "\n"), "env.hca", "NCCL_IB_HCA");
  };
  CHECK(of("=mlx5_0").outcome == Outcome::pass);
  CHECK(of("=mlx5_1").outcome == Outcome::fail);
  CHECK_THAT(of("=mlx5_1").reason, Contains("active"));
  CHECK(of("mlx5").outcome == Outcome::warn);
  CHECK_THAT(of("mlx5").reason, Contains("mlx5_2 is slower"));
  CHECK(of("=mlx5_0,mlx5_1").outcome == Outcome::pass);  // the dead one is the network's own finding
}

TEST_CASE("NCCL_SOCKET_IFNAME is held against the host's interfaces", "[doctor][env]") {
  const std::string nets =
      "folder /sys/class/net/lo\nfolder /sys/class/net/eth0\nfolder /sys/class/net/eth1\n"
      "folder /sys/class/net/docker0\nenv OMPI_COMM_WORLD_SIZE=4\n";
  const auto of = [&](const std::string& value, const char* here) {
    return find(rows_of(nets + "env OMPI_COMM_WORLD_LOCAL_SIZE=" + here + "\nenv NCCL_SOCKET_IFNAME=" + value + "\n"),
                "env.ifname", "NCCL_SOCKET_IFNAME");
  };
  CHECK(of("eth", "2").outcome == Outcome::pass);
  CHECK(of("=eth0", "2").value == "=eth0 takes eth0");
  CHECK(of("ib", "2").outcome == Outcome::fail);
  CHECK_THAT(of("ib", "2").reason, Contains("there is docker0 eth0 eth1 lo"));
  CHECK(of("lo", "2").outcome == Outcome::fail);
  CHECK(of("lo", "4").outcome == Outcome::pass);
  CHECK(of("docker0", "2").outcome == Outcome::fail);
  CHECK(of("^lo", "2").outcome == Outcome::warn);
  CHECK_THAT(of("^lo", "2").reason, Contains("docker0"));
  CHECK(of("^lo,docker", "2").outcome == Outcome::pass);
}

TEST_CASE("A healthy environment says nothing", "[doctor][env]") {
  CHECK(rows_of("env PATH=/bin\nenv HOME=/root\nenv CUDA_VISIBLE_DEVICES=0\n").empty());
}
