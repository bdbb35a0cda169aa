#include "driver/diagnose/job_book.h"
#include "driver/diagnose/net_devices.h"

#include <algorithm>
#include <string>

namespace busbar {

static bool has_root(std::string_view op) {
  return op == "Broadcast" || op == "Reduce" || op == "Gather" || op == "Scatter" || op == "Bcast";
}

static bool reduces(std::string_view op) { return op.find("Reduce") != std::string_view::npos; }

void JobBook::take(const CollCall& call, From& from) {
  std::uint32_t index = last_instance_;
  if (index == kNone || instances[index].pointer != call.comm || instances[index].process != from.process ||
      instances[index].ended) {
    index = find_instance(from.process, from.actor, call.comm);
    last_instance_ = index;
  }
  CommInstance& instance = instances[index];
  instance.used = true;
  if (instance.nranks < 0) instance.nranks = call.nranks;
  Process& process = processes[instance.process];
  const std::uint32_t when = process.calls++;
  Actor& actor = actors[instance.actor];
  actor.last_call_file = from.file;
  actor.last_call_line = from.line;
  if (call.op == "Send") {
    ++instance.sends;
    return;
  }
  if (call.op == "Recv") {
    ++instance.receives;
    return;
  }
  Call kept;
  kept.count = call.count;
  kept.op_count = static_cast<std::uint32_t>(call.op_count);
  kept.when = when;
  kept.op = words.id(call.op);
  kept.dtype = words.id(call.dtype);
  // A user's own reduction is a handle: its number may differ from rank to
  // rank.
  const bool handle = call.redop.size() > 1 && call.redop[0] >= '0' && call.redop[0] <= '9';
  kept.redop = words.id(!reduces(call.op) ? "" : handle ? "user" : call.redop);
  kept.root = has_root(call.op) ? static_cast<std::int32_t>(call.root) : -1;
  instance.calls.add(kept, words);
}

static bool another(const CommInstance& instance, const InitEvent& event) {
  if (instance.comm_id != 0 && event.comm_id != 0 && instance.comm_id != event.comm_id) return true;
  if (instance.rank >= 0 && event.rank >= 0 && instance.rank != event.rank) return true;
  if (instance.nranks >= 0 && event.nranks >= 0 && instance.nranks != event.nranks) return true;
  return !event.complete && event.function != "bootstrapSplit" && (instance.completed || instance.used);
}

void JobBook::take(const InitEvent& event, From& from) {
  if (from.origin.dev < 0 && event.cuda_dev >= 0) from.actor = find_actor(from.process, event.cuda_dev);
  std::uint32_t index = event.comm != 0 ? live_instance(from.process, event.comm) : kNone;
  if (index == kNone || another(instances[index], event)) {
    index = new_instance(from.process, from.actor, event.comm);
  }
  CommInstance& instance = instances[index];
  if (instance.calls.size() == 0 && instance.sends + instance.receives == 0) instance.announced = true;
  instance.actor = from.actor;
  if (event.rank >= 0) instance.rank = event.rank;
  if (event.nranks >= 0) instance.nranks = event.nranks;
  if (event.comm_id != 0) instance.comm_id = event.comm_id;
  if (!event.function.empty()) instance.function = event.function.substr(0, 64);
  if (event.color != -1) instance.color = event.color;
  if (event.parent != 0 && instance.parent == 0) {
    instance.parent = event.parent;
    instance.parent_instance = live_instance(from.process, event.parent);
    if (instance.parent_instance != kNone) instances[instance.parent_instance].used = true;
  }
  actors[from.actor].instance = index;
  // 2.3 and 2.4 announce a communicator without an end; START is printed
  // from 2.18.3 on, with all its fields.
  const bool oldest = event.function.empty() && event.comm_id == 0 && event.bus_id.empty();
  if (event.function == "bootstrapSplit" || (oldest && !event.complete)) return;
  if (event.complete) {
    instance.completed = true;
    instance.stage = InitStage::complete;
  } else {
    instance.started = true;
    instance.stage = std::max(instance.stage, InitStage::started);
  }
}

void JobBook::take(const CommShape& shape, From& from) {
  std::uint32_t index = live_instance(from.process, shape.comm);
  if (index == kNone) index = new_instance(from.process, from.actor, shape.comm);
  CommInstance& instance = instances[index];
  if (instance.calls.size() == 0) instance.announced = true;
  if (shape.rank >= 0) instance.rank = shape.rank;
  if (shape.nranks >= 0) instance.nranks = shape.nranks;
  if (shape.nnodes >= 0) instance.nnodes = shape.nnodes;
  if (instance.stage != InitStage::complete) instance.stage = std::max(instance.stage, InitStage::bootstrap);
  actors[from.actor].instance = index;
}

void JobBook::take(const Connection& connection, From& from) {
  Actor& actor = actors[from.actor];
  const std::string via = transport_name(connection);
  note("transport", via);
  if (actor.instance != kNone) {
    CommInstance& instance = instances[actor.instance];
    instance.stage = std::max(instance.stage, InitStage::connect);
    instance.last_connection = std::to_string(connection.src) + " -> " + std::to_string(connection.dst) + " via " + via;
  }
  const std::tuple key{actor.instance, connection.src, connection.dst, via};
  const auto known = actor.connections.find(key);
  if (known != actor.connections.end()) {
    ++known->second;
  } else if (actor.connections.size() < kMaxConnections) {
    actor.connections.emplace(key, 1);
  }
}

void JobBook::take(const Connected& connected, From& from) {
  const Actor& actor = actors[from.actor];
  if (actor.instance != kNone) {
    CommInstance& instance = instances[actor.instance];
    const bool rings = connected.what == Connected::What::rings;
    instance.stage = std::max(instance.stage, rings ? InitStage::rings : InitStage::trees);
  }
  switch (connected.what) {
    case Connected::What::rings:
      note("connected", "rings");
      break;
    case Connected::What::trees:
      note("connected", "trees");
      break;
    case Connected::What::nvls:
      note("connected", "nvls");
      note("nvls", "on");
      break;
  }
  if (connected.pxn >= 0) note("ring_pxn", std::to_string(connected.pxn));
  if (connected.gdr >= 0) note("ring_gdr", std::to_string(connected.gdr));
}

void JobBook::take(const InitTimings& timings, From& from) {
  Actor& actor = actors[from.actor];
  if (actor.hint_rank < 0) {
    actor.hint_rank = timings.rank;
    actor.hint_nranks = timings.nranks;
  }
  if (timings.total > actor.timings.total) actor.timings = timings;
}

void JobBook::take(const BootstrapTimings& timings, From& from) {
  Actor& actor = actors[from.actor];
  if (timings.total > actor.bootstrap.total) actor.bootstrap = timings;
  if (actor.instance == kNone) return;
  InitStage& stage = instances[actor.instance].stage;
  stage = std::max(stage, InitStage::bootstrap);
}

void JobBook::take(const Warning& warning, From& from) {
  const WarningRule& rule = warnings.add(warning, from.origin.timestamp, from.actor, from.file, from.line);
  Actor& actor = actors[from.actor];
  if (rule.kind == WarningKind::harmless) return;
  ++actor.warnings;
  const bool victim = rule.kind == WarningKind::victim;
  if (victim) ++actor.victim_warnings;
  if (!victim && rule.kind != WarningKind::unreachable && rule.kind != WarningKind::hardware) return;
  for (const std::string& address : addresses_in(warning.text)) {
    if (named_peers.size() < kMaxFacts) ++named_peers[{rule.kind, address}];
  }
}

void JobBook::take(const ReturnCode& code, From& from) {
  ++actors[from.actor].failures;
  if (return_codes.size() < kMaxFacts) ++return_codes[{code.code, std::string(code.thread.substr(0, 64))}];
}

void JobBook::take(const TorchWork& work, From& from) { torch.add(work, from.file, from.line); }

void JobBook::take(const CommEnd& end, From& from) {
  const std::uint32_t index = find_instance(from.process, from.actor, end.comm);
  CommInstance& instance = instances[index];
  if (instance.rank < 0) instance.rank = end.rank;
  instance.used = instance.used || !end.abort;
  instance.ended = true;
  instance.aborted = end.abort;
  if (end.abort) ++actors[instance.actor].failures;
  note("communicators_ended", end.abort ? "abort" : "destroy");
}

}  // namespace busbar
