// Would catch: a stranger's bytes taken for a rank, a length that decides how much memory is used, a proof that another
// key or an old nonce gives, and a message cut anywhere that is read as whole.

#include "common/processes/sockets/hello.h"

#include <catch2/catch.hpp>

#include <string>

using namespace busbar;

namespace {

using State = HelloInput::State;

Hello a_hello() {
  return {.version = "0.1",
          .job = {"run.0", 4},
          .arguments = "all_reduce_perf -b 8",
          .member = {3, 4711, "node1", "boot", "10.0.0.3", 40001},
          .nonce = "0123456789abcdef",
          .proof = ""};
}

}  // namespace

TEST_CASE("A hello is whole with its last byte, and not before", "[sockets][hello]") {
  const std::string bytes = hello_bytes(HelloKind::hello, pack_fields(a_hello()));
  for (std::size_t n = 0; n < bytes.size(); ++n) {
    REQUIRE(parse_hello(std::string_view(bytes).substr(0, n), HelloKind::hello).state == State::incomplete);
  }
  const HelloInput input = parse_hello(bytes, HelloKind::hello);
  REQUIRE(input.state == State::whole);
  const auto read = unpack_message<Hello>(input.payload);
  REQUIRE(read);
  CHECK(read->member.rank == 3);
  CHECK(read->member.ip == "10.0.0.3");
  CHECK(read->member.port == 40001);
  CHECK(read->job == MeetJob{"run.0", 4});
  CHECK(read->arguments == "all_reduce_perf -b 8");
  CHECK(parse_hello(bytes + "x", HelloKind::hello).state == State::bad);
}

TEST_CASE("Strangers are known by their first wrong byte", "[sockets][hello]") {
  CHECK(parse_hello("GET / HTTP/1.1\r\n", HelloKind::hello).state == State::bad);
  CHECK(parse_hello("BBMX", HelloKind::hello).state == State::bad);
  CHECK(parse_hello("BBMEET02", HelloKind::hello).state == State::bad);
  const std::string link = hello_bytes(HelloKind::link, pack_fields(LinkHello{1, "proof"}));
  CHECK(parse_hello(link, HelloKind::hello).state == State::bad);
  CHECK(parse_hello(link.substr(0, 9), HelloKind::welcome).state == State::bad);
}

TEST_CASE("A length decides nothing before its bytes are there", "[sockets][hello]") {
  std::string bytes = hello_bytes(HelloKind::hello, "");
  for (const std::size_t at : {9, 10, 11, 12}) bytes[at] = '\xff';
  CHECK(parse_hello(bytes, HelloKind::hello).state == State::bad);
  // 256 KiB and no more.
  bytes = hello_bytes(HelloKind::hello, std::string(kMaxHello, 'x'));
  CHECK(parse_hello(bytes, HelloKind::hello).state == State::whole);
  CHECK_THROWS(hello_bytes(HelloKind::hello, std::string(kMaxHello + 1, 'x')));
  // The payload's own counts.
  CHECK_FALSE(unpack_message<Hello>(std::string(8, '\xff')));
  CHECK_FALSE(unpack_message<MeetAnswer>(std::string(100, '\xff')));
  CHECK_FALSE(unpack_message<Welcome>(""));
  CHECK_FALSE(unpack_message<LinkHello>(pack_fields(LinkHello{1, "proof"}) + "x"));
}

TEST_CASE("Only the key proves a hello, over this welcome and these words", "[sockets][hello]") {
  const Hello hello = proven(a_hello(), "key", "welcome");
  CHECK(hello.proof.size() == 32);
  CHECK(is_proven(hello, "key", "welcome"));
  CHECK_FALSE(is_proven(hello, "other", "welcome"));
  CHECK_FALSE(is_proven(hello, "", "welcome"));
  CHECK_FALSE(is_proven(hello, "key", "another welcome"));
  Hello changed = hello;
  changed.member.rank = 2;
  CHECK_FALSE(is_proven(changed, "key", "welcome"));
  MeetAnswer answer{.code = 0, .why = "", .token = "token", .neighbors = {hello.member}, .proof = ""};
  answer = proven(answer, "key", hello.nonce);
  CHECK(is_proven(answer, "key", hello.nonce));
  answer.neighbors[0].ip = "10.0.0.66";
  CHECK_FALSE(is_proven(answer, "key", hello.nonce));
  CHECK(link_proof("token", 1, 2) != link_proof("token", 2, 1));
}
