// Would catch: a setting that is accepted and then ignored, a combination that does not exist and is tried, a default
// that is not first, a value of one collective forced on another.

#include "driver/compare/variants.h"

#include "common/backends/backend_traits.h"
#include "common/base/error.h"

#include <catch2/catch.hpp>

using namespace busbar;
using Catch::Contains;

namespace {

template <class Work>
std::string complaint(const Work& work) {
  try {
    work();
  } catch (const Error& e) {
    CHECK(e.code() == ExitCode::bad_config);
    return e.what();
  }
  return "no error";
}

std::vector<std::string> labels(const std::vector<Variant>& variants) {
  std::vector<std::string> list;
  for (const Variant& v : variants) list.push_back(v.label);
  return list;
}

Operation operation(const Collective& c, std::size_t count, int nranks, DType dtype = DType::float32) {
  return {&c,
          {.count = count, .elem_size = 4, .nranks = nranks},
          dtype,
          c.has_op ? std::optional(Op::sum) : std::nullopt,
          false};
}

std::vector<Variant> variants(std::initializer_list<const char*> vary, const Collective& c, std::string_view backend) {
  std::vector<Varied> varied;
  for (const char* text : vary) varied.push_back(parse_vary(text));
  check_vary_in_one_job(varied);
  return make_variants(varied, c, traits_of(backend));
}

using Labels = std::vector<std::string>;

}  // namespace

TEST_CASE("a setting and its values are read", "[compare][variants]") {
  CHECK(parse_vary("NCCL_ALGO=Ring,Tree,Ring") == Varied{"NCCL_ALGO", {"Ring", "Tree"}});
  CHECK(parse_vary("X=a=b").values == std::vector<std::string>{"a=b"});
  CHECK(complaint([] { parse_vary("NCCL_ALGO"); }) == "'NCCL_ALGO' is not NAME=V1,V2");
  CHECK(complaint([] { parse_vary("=a"); }) == "a setting has no name: write NAME=V1,V2");
  CHECK(complaint([] { parse_vary("X="); }) == "X: a value is empty");
  CHECK(complaint([] { parse_vary("X=a,,b"); }) == "X: a value is empty");
  CHECK(complaint([] { make_varied("X", {}); }) == "X: no values to try");
}

TEST_CASE("variants are all combinations, the library's own choice first", "[compare][variants]") {
  const auto list = variants({"NCCL_ALGO=ring,TREE", "NCCL_PROTO=LL,Simple"}, kAllReduce, "nccl");
  CHECK(labels(list) == Labels{"default", "Ring/LL", "Ring/Simple", "Tree/LL", "Tree/Simple"});
  CHECK(list[0].settings.empty());
  CHECK(*setting(list[2], "NCCL_ALGO") == "Ring");
  CHECK(*setting(list[2], "NCCL_PROTO") == "Simple");
  CHECK(labels(variants({"nccl.ctas=2,4"}, kAllReduce, "nccl")) == Labels{"default", "ctas=2", "ctas=4"});
  CHECK(labels(variants({"device=0,2"}, kAllReduce, "nccl")) == Labels{"default", "device=0", "device=2"});
  CHECK_THAT(complaint([] { variants({"device=5"}, kAllReduce, "nccl"); }), Contains("--vary device"));
  CHECK_THAT(complaint([] {
               variants({"nccl.minCTAs=1,2,3,4,5", "nccl.cgaClusterSize=1,2,3,4", "NCCL_PROTO=LL,LL128,Simple,^LL"},
                        kAllReduce, "nccl");
             }),
             Contains("80 combinations are more than 64"));
}

TEST_CASE("Open MPI's algorithms are known per collective", "[compare][variants]") {
  CHECK(labels(variants({"ompi.algorithm=all"}, kAllReduce, "mpi")) ==
        Labels{"default", "basic_linear", "nonoverlapping", "recursive_doubling", "ring", "segmented_ring/64K",
               "rabenseifner"});
  CHECK(labels(variants({"ompi.algorithm=4,ring,recursive-doubling"}, kAllReduce, "mpi")) ==
        Labels{"default", "ring", "recursive_doubling"});
  const auto with_segments = variants({"ompi.algorithm=chain", "ompi.segmentsize=8K,1M"}, kBroadcast, "mpi");
  CHECK(labels(with_segments) == Labels{"default", "chain/8K", "chain/1M"});
  CHECK(ompi_choice(with_segments[1], kBroadcast).algorithm == 2);
  CHECK(ompi_choice(with_segments[1], kBroadcast).segment_bytes == 8192);
  CHECK(ompi_choice(with_segments[0], kBroadcast).algorithm == 0);
  CHECK_THAT(complaint([] { variants({"ompi.algorithm=ring"}, kBroadcast, "mpi"); }),
             Contains("--vary ompi.algorithm: Open MPI has no bcast algorithm 'ring'") && Contains("binomial"));
  CHECK_THAT(complaint([] { variants({"ompi.algorithm=all"}, kSendrecv, "mpi"); }),
             Contains("sendrecv is built from sends and receives"));
}

TEST_CASE("MPICH's algorithms are known per collective, and not mixed with Open MPI's", "[compare][variants]") {
  CHECK(labels(variants({"mpich.algorithm=all"}, kGather, "mpi")) == Labels{"default", "binomial", "nb"});
  CHECK(labels(variants({"mpich.algorithm=recursive-doubling"}, kAllReduce, "mpi")) ==
        Labels{"default", "recursive_doubling"});
  CHECK_THAT(complaint([] { variants({"mpich.algorithm=rabenseifner"}, kAllReduce, "mpi"); }),
             Contains("--vary mpich.algorithm: MPICH has no allreduce algorithm 'rabenseifner'"));
  CHECK_THAT(complaint([] { variants({"mpich.algorithm=all"}, kSendrecv, "mpi"); }),
             Contains("MPICH has no algorithms for it"));
  const std::vector<Varied> both{parse_vary("mpich.algorithm=nb"), parse_vary("ompi.algorithm=ring")};
  CHECK_THAT(complaint([&] { check_vary_in_one_job(both); }), Contains("a job has one of them"));
}

TEST_CASE("settings of blocking functions are not varied for nonblocking ones", "[compare][variants]") {
  const auto check = [](const char* text) {
    return complaint([&] { check_vary_nonblocking(std::vector{parse_vary(text)}); });
  };
  for (const char* text : {"ompi.algorithm=ring", "ompi.segmentsize=4K", "mpich.algorithm=nb",
                           "ompi.coll_tuned_alltoall_max_requests=0,4"}) {
    CHECK_THAT(check(text), Contains("blocking functions alone") && Contains("ompi.coll_libnbc_"));
  }
  CHECK(check("ompi.coll_libnbc_iallreduce_algorithm=1,2") == "no error");
}

TEST_CASE("settings that one job cannot vary are refused with the way out", "[compare][variants]") {
  const auto check = [](const char* text) {
    return complaint([&] { check_vary_in_one_job(std::vector{parse_vary(text)}); });
  };
  CHECK_THAT(check("NCCL_BUFFSIZE=4M,8M"),
             Contains("NCCL reads NCCL_BUFFSIZE once per process") && Contains("--launch"));
  CHECK_THAT(check("NCCL_MAX_NCHANNELS=4,8"), Contains("or vary nccl.ctas"));
  CHECK_THAT(check("OMPI_MCA_btl=self,tcp"), Contains("read when MPI starts") && Contains("--launch"));
  CHECK_THAT(check("NCCL_ALG=Ring"), Contains("NCCL_ALG once per process"));
  CHECK_THAT(check("ompi.algoritm=all"), Contains("did you mean ompi.algorithm?"));
  CHECK(check("ompi.coll_tuned_alltoall_max_requests=0,4") == "no error");
  CHECK_THAT(complaint([] {
               check_vary_in_one_job(std::vector{parse_vary("NCCL_ALGO=Ring"), parse_vary("NCCL_ALGO=Tree")});
             }),
             Contains("varied twice"));
  CHECK_THAT(check("ompi.segmentsize=4K"), Contains("vary ompi.algorithm too"));
  CHECK_THAT(complaint([] {
               check_vary_in_one_job(std::vector{parse_vary("nccl.ctas=1"), parse_vary("nccl.minCTAs=1")});
             }),
             Contains("sets minCTAs and maxCTAs"));
}

TEST_CASE("launches vary what nobody's traits name beside an algorithm, and the labels tell them apart",
          "[compare][variants]") {
  const std::vector<Varied> varied{parse_vary("ompi.algorithm=ring"), parse_vary("UCX_TLS=tcp,sm"),
                                   parse_vary("OMPI_MCA_btl_vader_eager_limit=8K")};
  const auto list = make_variants(varied, kAllReduce, traits_of("mpi"));
  CHECK(labels(list) == Labels{"default", "ring/UCX_TLS=tcp/OMPI_MCA_btl_vader_eager_limit=8K",
                               "ring/UCX_TLS=sm/OMPI_MCA_btl_vader_eager_limit=8K"});
  const std::vector<Varied> of_nccl{parse_vary("ompi.algorithm=ring"), parse_vary("NCCL_ALGO=Ring")};
  CHECK_THAT(complaint([&] { make_variants(of_nccl, kAllReduce, traits_of("mpi")); }), Contains("NCCL_ALGO is NCCL's"));
}

TEST_CASE("a library's settings are refused for the other", "[compare][variants]") {
  CHECK_THAT(complaint([] { variants({"NCCL_ALGO=Ring"}, kAllReduce, "mpi"); }), Contains("vary ompi.algorithm"));
  CHECK_THAT(complaint([] { variants({"ompi.algorithm=ring"}, kAllReduce, "nccl"); }), Contains("vary NCCL_ALGO"));
  CHECK_THAT(complaint([] { variants({"NCCL_ALGO=Rng"}, kAllReduce, "nccl"); }), Contains("did you mean Ring?"));
  CHECK_THAT(complaint([] { variants({"NCCL_PROTO=LL64"}, kAllReduce, "nccl"); }), Contains("LL LL128 Simple"));
  CHECK_THAT(complaint([] { variants({"nccl.ctas=many"}, kAllReduce, "nccl"); }), Contains("--vary nccl.ctas"));
}

TEST_CASE("NCCL's missing kernels are known before they are tried", "[compare][variants]") {
  const Operation reduce = operation(kAllReduce, 1024, 8);
  CHECK_FALSE(nccl_why_not(reduce, "", "", 1, 8));
  CHECK_FALSE(nccl_why_not(reduce, "Ring", "LL128", 1, 8));
  CHECK_FALSE(nccl_why_not(reduce, "^NVLS", "", 1, 8));
  CHECK_FALSE(nccl_why_not(reduce, "", "LL", 1, 8));  // Ring and Tree have it
  CHECK_FALSE(nccl_why_not(reduce, "NVLSTree", "", 2, 8));
  CHECK_THAT(*nccl_why_not(reduce, "NVLSTree", "", 1, 8), Contains("several nodes"));
  CHECK_THAT(*nccl_why_not(reduce, "NVLS", "LL", 1, 8), Contains("NVLS runs with the Simple protocol only"));
  CHECK_THAT(*nccl_why_not(reduce, "NVLS", "^Simple", 1, 8), Contains("Simple protocol only"));
  CHECK_THAT(*nccl_why_not(reduce, "PAT", "", 1, 1), Contains("no PAT kernel for all_reduce"));
  CHECK_THAT(*nccl_why_not(operation(kBroadcast, 1024, 8), "Tree", "", 1, 8),
             Contains("no Tree kernel for broadcast (it has Ring)"));
  CHECK_THAT(*nccl_why_not(operation(kBroadcast, 1024, 8), "^Ring", "", 1, 8), Contains("kernel for broadcast"));
  CHECK_THAT(*nccl_why_not(operation(kAllGather, 1024, 8), "PAT", "", 4, 2), Contains("one GPU per node"));
  CHECK_FALSE(nccl_why_not(operation(kAllGather, 1024, 8), "PAT", "", 8, 1));
  CHECK_THAT(*nccl_why_not(operation(kAlltoall, 1024, 8), "Ring", "", 1, 8), Contains("sends and receives"));
  CHECK_FALSE(nccl_why_not(operation(kAllGatherv, 1024, 8), "Ring", "", 1, 8));
  CHECK_THAT(*nccl_why_not(operation(kAllReduce, 1024, 8, DType::int8), "NVLS", "", 1, 8),
             Contains("does not reduce int8"));
  CHECK_THAT(*nccl_why_not(operation(kAllReduce, 1024, 1), "Ring", "", 1, 1), Contains("one rank"));
}

TEST_CASE("a value is forced for one function alone", "[compare][variants]") {
  CHECK(for_collective(kAllReduce, "Tree") == "allreduce:tree");
  CHECK(for_collective(kReduceScatter, "^NVLS") == "reducescatter:^nvls");
  // What runs them is a group of NCCL's others.
  CHECK(for_collective(kAllGatherv, "Ring") == "broadcast:ring");
  CHECK(for_collective(kReduceScatterv, "Ring") == "reduce:ring");
}

TEST_CASE("what Open MPI would silently replace is n/a", "[compare][variants]") {
  const auto all = variants({"ompi.algorithm=all"}, kAllGather, "mpi");
  const auto reason = [&](std::string_view label, int nranks) {
    for (const Variant& v : all) {
      if (v.label == label) return why_not(v, operation(kAllGather, 1024, nranks), {}).value_or("runs");
    }
    return std::string("no such variant");
  };
  CHECK_THAT(reason("two_proc", 3), Contains("two_proc needs 2 ranks, not 3"));
  CHECK(reason("two_proc", 2) == "runs");
  CHECK(reason("ring", 3) == "runs");
  CHECK(reason("default", 3) == "runs");
}
