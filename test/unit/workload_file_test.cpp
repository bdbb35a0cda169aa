// Would show: a job that changes when it is written and read, an error without its line, and untrusted names that reach
// a terminal or a page as they are.

#include "common/base/error.h"
#include "driver/workload/join_ranks.h"
#include "driver/workload/workload.h"
#include "workload_fixture.h"

#include <catch2/catch.hpp>
#include <fmt/format.h>

using namespace busbar;
using Catch::Contains;

namespace {

Workload a_job() {
  JoinRanks join;
  const std::string events = kineto_step(1, 0, 100) + "," + kineto_call("allreduce", 3, 10, 1024, 1024) + "," +
                             kineto_call("_reduce_scatter_base", 5, 20, 1024, 512) + "," +
                             kineto_kernel("ncclDevKernel_AllReduce", 3, 30, 20) + "," +
                             kineto_kernel("it's: {a} kernel", 1, 40, 20);
  join.add(kineto_rank(kineto_trace(0, events), "it's a 'trace'.json"));
  return join.finish();
}

std::string body(const std::string& yaml) { return yaml.substr(yaml.find("schema:")); }

}  // namespace

TEST_CASE("a job is the same after writing and reading", "[workload]") {
  const std::string yaml = workload_yaml(a_job());
  const Workload read = read_workload(yaml, "job.yaml");
  CHECK(body(workload_yaml(read)) == body(yaml));
  CHECK(read.operations.size() == 2);
  CHECK(read.sources[0].file == "it's a 'trace'.json");
  CHECK(workload_text(read, 20) == workload_text(a_job(), 20));
}

TEST_CASE("errors in a job name the line", "[workload]") {
  const std::string yaml = body(workload_yaml(a_job()));
  const auto fails = [&](std::string_view what, std::string_view by, const std::string& with) {
    std::string text = yaml;
    const std::size_t at = text.find(what);
    REQUIRE(at != std::string::npos);
    text.replace(at, what.size(), by);
    CHECK_THROWS_WITH(read_workload(text, "job.yaml"), Contains(with));
  };
  fails("schema: 1\n", "", "job.yaml:1: the file: 'schema' is missing");
  fails("schema: 1\n", "schema: 2\n", "job.yaml:1: schema '2' is not known");
  fails("nranks: 2", "nrank: 2", "job.yaml:2: unknown key 'nrank' (did you mean nranks?)");
  fails("call: all_reduce", "call: allreduce", "unknown call 'allreduce' (did you mean all_reduce?)");
  fails("in_bytes: 4096", "in_bytes: -1", "'-1' is not a whole number");
  fails("in_bytes: 4096", "in_bytes: 99999999999999999999", "is not a whole number");
  fails("calls: 1, nbytes: 4096", "nbytes: 4096", "'calls' is missing");
  fails("group: '0'", "group: '7'", "there is no group '7'");
  fails("id: 2", "id: 1", "operation 1 is there twice");
  fails("via: c10d", "routing: x, via: c10d", "routing belongs to a later version");
  fails("operations:", "operations: 3\nx:", "operations: write a list");
  CHECK_THROWS_WITH(read_workload("a: [", "job.yaml"), Contains("job.yaml:"));
}

TEST_CASE("a job's page and document", "[workload]") {
  const Workload job = a_job();
  ReportLanes lanes;
  lanes.rank = 0;
  lanes.step = "<b>step</b>";
  lanes.time_s = 1e-4;
  lanes.computing = {{0, 5e-5}};
  lanes.exposed = lanes.communicating = {{5e-5, 8e-5}};
  const std::string page = workload_html(job, {lanes}, "a <title>");
  CHECK_THAT(page, Contains("<svg class=\"lanes\""));
  CHECK_THAT(page, Contains("class=\"lane-exposed\" d=\"M"));
  CHECK_THAT(page, !Contains("<b>step</b>"));
  CHECK_THAT(page, !Contains("a <title>"));
  CHECK_THAT(workload_json(job), Contains("\"document\": \"workload\""));
}

TEST_CASE("the file of a large job stays readable, and says what it lacks", "[workload]") {
  Workload job = a_job();
  const WorkloadStep step = job.steps.front();
  job.steps.assign(20000, step);
  const std::string yaml = workload_yaml(job);
  CHECK(yaml.size() <= std::size_t{1} << 20);
  const Workload read = read_workload(yaml, "job.yaml");
  CHECK(read.steps.size() < 20000);
  CHECK_THAT(read.remarks.back(),
             Contains(fmt::format("it has {} of 20000 steps, 2 of 2 operations", read.steps.size())));
}
