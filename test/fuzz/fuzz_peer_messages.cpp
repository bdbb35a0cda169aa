// Catches: bytes from a stranger or a broken watcher that bring anything but a busbar::Error or a refusal; a message
// that is read though encode() would write it otherwise; evidence that does not survive the way; an address that the
// host does not have.

#include "common/base/error.h"
#include "common/watch/peer_address.h"
#include "common/watch/peer_messages.h"
#include "fuzz_main.h"

#include <array>
#include <cstring>

using namespace busbar;

namespace {

const std::string kToken = "00112233445566778899aabbccddeeff";

std::string try_request(std::string_view input) {
  const PeerInput request = parse_request(input);
  if (request.expected > kRequestHeader + kMaxRequest) return "a request of more than may come";
  if (request.state != PeerInput::State::whole) return {};
  const std::string again = request_bytes(request.kind, request.nonce, request.proof, request.payload);
  return again == input ? "" : "a request that is written otherwise";
}

std::string try_reply(std::string_view input) {
  const PeerInput reply = parse_reply(input);
  if (reply.expected > kReplyHeader + kMaxReply) return "a reply of more than may come";
  if (reply.state != PeerInput::State::whole) return {};
  return reply_bytes(reply.proof, reply.payload) == input ? "" : "a reply that is written otherwise";
}

std::string try_evidence(std::string_view input) {
  try {
    return encode(decode_host(input)) == input ? "" : "evidence that is written otherwise";
  } catch (const Error&) {
    return {};
  }
}

/// Evidence whose texts and numbers are the input.
std::string try_round_trip(std::string_view input) {
  HostEvidence host;
  host.host = host.why_not = input;
  std::array<double, 3> numbers{};
  if (!input.empty()) std::memcpy(numbers.data(), input.data(), std::min(input.size(), sizeof numbers));
  host.net_bytes_per_s = numbers[0];
  RankEvidence rank;
  rank.flight.step = input;
  rank.flight.limit_s = numbers[1];
  std::memcpy(&rank.flight.pid, &numbers[2], sizeof rank.flight.pid);
  rank.process.state = input.empty() ? '?' : input.back();
  host.ranks.push_back(rank);
  const std::string message = encode(host);
  return encode(decode_host(message)) == message ? "" : "evidence that does not survive the way";
}

std::string try_names(std::string_view input) {
  const std::string text(input.substr(0, input.find('\0')));
  const std::vector<InterfaceAddress> own{
      {"eth0", "10.0.0.2", 8}, {"ib0", "fd00::3", 64}, {"docker0", "172.17.0.1", 16}};
  for (const std::string_view variable :
       {"OMPI_MCA_btl_tcp_if_include", "NCCL_SOCKET_IFNAME", "OMPI_MCA_orte_hnp_uri", "SLURM_LAUNCH_NODE_IPADDR"}) {
    const auto get = [&](const char* name) { return variable == name ? text.c_str() : nullptr; };
    try {
      const std::string ip = choose_address(own, get, [](const std::string& to) { return to; });
      if (ip != own[0].ip && ip != own[1].ip && ip != own[2].ip) return "an address that the host does not have";
    } catch (const Error&) {
      // the name of no interface
    }
  }
  return {};
}

HostEvidence some_host() {
  RankEvidence rank;
  rank.flight.jobid = "77.0";
  rank.flight.step = "64 MiB float sum";
  rank.flight.call = CalledOperation{2, "all_reduce", 16777216, "float", "sum", -1, 67108864, true};
  rank.flight.finished.resize(2);
  rank.process = {ProcessState::Life::alive, 'T', "do_signal_stop"};
  HostEvidence host;
  host.host = "node3";
  host.reached = true;
  host.ranks = {rank, {}};
  host.troubles = {{Trouble::Kind::hardware, "mlx5_3 port 1 is DOWN"}};
  host.probes = {{"node1", PeerProbe::Result::large_lost, true}};
  host.links = {{"node1", JobLink::State::closed}};
  return host;
}

}  // namespace

const long kFuzzRounds = 20000;

std::string fuzz_one(std::string_view input) {
  // A block of exactly that size: the address sanitizer sees a step beyond it.
  const std::vector<char> exact(input.begin(), input.end());
  const std::string_view bytes(exact.data(), exact.size());
  for (const auto trial : {try_request, try_reply, try_evidence, try_round_trip, try_names}) {
    if (std::string wrong = trial(bytes); !wrong.empty()) return wrong;
  }
  return {};
}

std::vector<std::string> fuzz_seeds() {
  return {request_bytes(PeerKind::message, kToken, kToken, "evidence"),
          request_bytes(PeerKind::echo, kToken, kToken, std::string(300, 'e')),
          request_bytes(PeerKind::message, kToken, std::string(kTokenLength, '0'), ""),
          reply_bytes(kToken, "yes"),
          encode(some_host()),
          encode({}),
          "165019648.0;tcp://192.0.2.2,10.0.0.2:46433;tcp6://[fd00::3]:48325",
          "^=eth0,ib0:1234,docker",
          "10.0.0.0/8,fd00::/7,eth0"};
}
