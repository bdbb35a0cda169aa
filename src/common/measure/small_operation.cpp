#include "common/measure/small_operation.h"

#include "common/measure/observed_steps.h"
#include "common/measure/timed_loop.h"

#include <utility>

namespace busbar {
namespace {

Case small_all_reduce(const Backend& backend, std::size_t nbytes) {
  Case c;
  c.op = Op::sum;
  c.problem.elem_size = size_of(c.dtype);
  c.problem.count = nbytes / c.problem.elem_size;
  c.problem.nranks = backend.nranks();
  c.nbytes = c.problem.count * c.problem.elem_size;
  c.requested_bytes = c.nbytes;
  return c;
}

}  // namespace

SmallOperation::SmallOperation(Backend& backend, std::vector<RankInfo> local_ranks, std::size_t nbytes, FailJob fail)
    : backend_(backend),
      fail_(std::move(fail)),
      case_(small_all_reduce(backend, nbytes)),
      arena_(backend, case_.nbytes, 0),
      buffer_plan_(backend, arena_, kAllReduce, case_, false, 0, 1),
      verifier_(backend, std::move(local_ranks)) {}

CalledOperation SmallOperation::called() const {
  return called_operation(backend_.as_called(buffer_plan_.operation(), 1), case_.nbytes, 0);
}

void SmallOperation::prepare() { verifier_.prepare_timed(buffer_plan_); }

double SmallOperation::run() {
  const Clock::time_point begin = Clock::now();
  launch_once(backend_, buffer_plan_, fail_);
  return seconds(Clock::now() - begin);
}

std::vector<WrongRank> SmallOperation::check() { return verifier_.check_timed(buffer_plan_); }

InitTime measure_init(const Comm& world, const Backend& backend, SmallOperation& operation) {
  operation.prepare();
  world.barrier();
  InitTime init{backend.creation_s(), operation.run()};
  init.create_s = world.max(init.create_s);
  init.first_op_s = world.max(init.first_op_s);
  return init;
}

}  // namespace busbar
