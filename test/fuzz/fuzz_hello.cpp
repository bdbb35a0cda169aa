// Catches: bytes from a stranger on the port of a job without MPI that bring anything but a refusal; a message that is
// read though it would be written otherwise; one that is whole before its last byte; a proof that other bytes give.

#include "common/processes/sockets/hello.h"
#include "fuzz_main.h"

#include <array>

using namespace busbar;

namespace {

constexpr std::array kKinds{HelloKind::welcome, HelloKind::hello, HelloKind::answer, HelloKind::link};

const JobMember kMember{3, 4711, "node1", "0011223344556677", "10.0.0.3", 40001};

Hello some_hello() {
  return {.version = "0.1.0",
          .job = {"run.0", 16},
          .arguments = "all_reduce_perf -b 8 -e 1M",
          .member = kMember,
          .nonce = "00112233445566778899aabbccddeeff",
          .proof = ""};
}

template <class Message>
std::string written_again(const std::optional<Message>& message, std::string_view payload) {
  return !message || pack_fields(*message) == payload ? "" : "a message that is written otherwise";
}

std::string try_payload(std::string_view payload) {
  if (std::string wrong = written_again(unpack_message<Welcome>(payload), payload); !wrong.empty()) return wrong;
  if (std::string wrong = written_again(unpack_message<MeetAnswer>(payload), payload); !wrong.empty()) return wrong;
  if (std::string wrong = written_again(unpack_message<LinkHello>(payload), payload); !wrong.empty()) return wrong;
  const std::optional<Hello> hello = unpack_message<Hello>(payload);
  if (hello && is_proven(*hello, "another key", "nonce")) return "a proof by chance";
  return written_again(hello, payload);
}

}  // namespace

const long kFuzzRounds = 20000;

std::string fuzz_one(std::string_view input) {
  const std::vector<char> exact(input.begin(), input.end());
  const std::string_view bytes(exact.data(), exact.size());
  for (const HelloKind kind : kKinds) {
    const HelloInput read = parse_hello(bytes, kind);
    if (read.expected > kHelloHeader + kMaxHello) return "more than may come";
    if (read.state != HelloInput::State::whole) continue;
    if (hello_bytes(kind, read.payload) != bytes) return "a frame that is written otherwise";
    if (parse_hello(bytes.substr(0, bytes.size() - 1), kind).state == HelloInput::State::whole)
      return "whole too early";
    if (std::string wrong = try_payload(read.payload); !wrong.empty()) return wrong;
  }
  return try_payload(bytes);
}

std::vector<std::string> fuzz_seeds() {
  const Hello hello = proven(some_hello(), "key", "welcome");
  const Welcome welcome{"0.1.0", {"run.0", 16}, "2026-11-26 12:03:00", "00112233445566778899aabbccddeeff"};
  const MeetAnswer answer{.code = 0, .why = "", .token = hello.nonce, .neighbors = {kMember, kMember}, .proof = ""};
  const MeetAnswer refusal{.code = 255, .why = "another key", .token = "", .neighbors = {}, .proof = ""};
  return {hello_bytes(HelloKind::hello, pack_fields(hello)),
          hello_bytes(HelloKind::welcome, pack_fields(welcome)),
          hello_bytes(HelloKind::answer, pack_fields(proven(answer, "key", "nonce"))),
          hello_bytes(HelloKind::answer, pack_fields(refusal)),
          hello_bytes(HelloKind::link, pack_fields(LinkHello{2, link_proof(hello.nonce, 2, 3)})),
          pack_fields(hello),
          pack_fields(answer)};
}
