#include "common/processes/sockets/hello.h"

#include "common/base/error.h"
#include "common/base/packed_fields.h"
#include "common/machine/hmac.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <span>
#include <utility>

namespace busbar {

BUSBAR_RECORD(MeetJob, name, nprocs);
BUSBAR_RECORD(Welcome, version, job, started, nonce);
BUSBAR_RECORD(JobMember, rank, pid, host, machine, ip, port);
BUSBAR_RECORD(Hello, version, job, arguments, member, nonce, proof);
BUSBAR_RECORD(MeetAnswer, code, why, token, neighbors, proof);
BUSBAR_RECORD(LinkHello, rank, proof);

namespace {

constexpr std::string_view kMeetMagic = "BBMEET01";
static_assert(kHelloHeader == kMeetMagic.size() + 1 + 4);

template <class T>
std::optional<T> unpacked(std::string_view payload) {
  try {
    return unpack_fields<T>(payload);
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace

HelloInput parse_hello(std::string_view received, HelloKind kind) {
  constexpr HelloInput kBad{HelloInput::State::bad};
  const std::string_view magic = received.substr(0, kMeetMagic.size());
  if (magic != kMeetMagic.substr(0, magic.size())) return kBad;
  if (received.size() > kMeetMagic.size() && received[kMeetMagic.size()] != static_cast<char>(kind)) return kBad;
  if (received.size() < kHelloHeader) return {};
  std::size_t length = 0;
  for (const char c : received.substr(kHelloHeader - 4, 4)) length = length << 8 | static_cast<unsigned char>(c);
  if (length > kMaxHello) return kBad;
  HelloInput input;
  input.expected = kHelloHeader + length;
  if (received.size() > input.expected) return kBad;
  if (received.size() < input.expected) return input;
  input.state = HelloInput::State::whole;
  input.payload = received.substr(kHelloHeader);
  return input;
}

std::string hello_bytes(HelloKind kind, std::string_view payload) {
  if (payload.size() > kMaxHello) {
    throw Error(ExitCode::internal, fmt::format("a message of {} bytes between processes that meet", payload.size()));
  }
  std::string bytes(kMeetMagic);
  bytes += static_cast<char>(kind);
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(payload.size() >> shift & 0xFF);
  return bytes.append(payload);
}

std::string packed(const Welcome& welcome) { return pack_fields(welcome); }
std::string packed(const Hello& hello) { return pack_fields(hello); }
std::string packed(const MeetAnswer& answer) { return pack_fields(answer); }
std::string packed(const LinkHello& hello) { return pack_fields(hello); }
std::string packed(const std::vector<JobMember>& members) { return pack_fields(members); }
std::optional<Welcome> unpack_welcome(std::string_view payload) { return unpacked<Welcome>(payload); }
std::optional<Hello> unpack_hello(std::string_view payload) { return unpacked<Hello>(payload); }
std::optional<MeetAnswer> unpack_answer(std::string_view payload) { return unpacked<MeetAnswer>(payload); }
std::optional<LinkHello> unpack_link(std::string_view payload) { return unpacked<LinkHello>(payload); }
std::vector<JobMember> unpack_members(std::string_view payload) {
  return unpack_fields<std::vector<JobMember>>(payload);
}

std::string meet_proof(std::string_view key, std::string_view text) {
  const std::array<unsigned char, 32> digest = hmac_sha256(key, text);
  return fmt::format("{:02x}", fmt::join(std::span(digest).first(16), ""));
}

namespace {

template <class Message>
std::string proof_of(Message message, std::string_view key, std::string_view nonce) {
  message.proof.clear();
  return meet_proof(key, fmt::format("{}\n{}", nonce, packed(message)));
}

}  // namespace

Hello proven(Hello hello, std::string_view key, std::string_view nonce) {
  hello.proof = proof_of(hello, key, nonce);
  return hello;
}

bool is_proven(const Hello& hello, std::string_view key, std::string_view nonce) {
  return equal_in_constant_time(hello.proof, proof_of(hello, key, nonce));
}

MeetAnswer proven(MeetAnswer answer, std::string_view key, std::string_view nonce) {
  answer.proof = proof_of(answer, key, nonce);
  return answer;
}

bool is_proven(const MeetAnswer& answer, std::string_view key, std::string_view nonce) {
  return equal_in_constant_time(answer.proof, proof_of(answer, key, nonce));
}

std::string link_proof(std::string_view token, int from, int to) {
  return meet_proof(token, fmt::format("{} links with {}", from, to));
}

}  // namespace busbar
