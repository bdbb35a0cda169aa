#include "common/watch/local_evidence.h"

#include <catch2/catch.hpp>

#include <cstdint>
#include <set>
#include <string>

using namespace busbar;

namespace {

const std::string kHeader =
    "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n";

/// To 198.18.7.3: 0xC6 0x12 0x07 0x03, as a little-endian word.
std::string line(const std::string& state, const std::string& sent, const std::string& again, const std::string& uid,
                 const std::string& remote = "030712C6:0400") {
  return "   3: 010712C6:9C40 " + remote + " " + state + " " + sent + ":00000000 01:00000123 " + again + "     " + uid +
         "        0 12345 2 0000000000000000 1600 4 0 1 7\n";
}

/// Addresses to which a user's connections stall.
std::set<std::string> stalled_of(const std::string& text, std::uint32_t uid) {
  std::set<std::string> stalled;
  for (const TcpConnection& one : parse_established(text)) {
    if (one.stalled && one.uid == uid) stalled.insert(one.remote);
  }
  return stalled;
}

}  // namespace

TEST_CASE("data that were sent again and again without an answer tell a stalled connection", "[stalled_connections]") {
  const std::string whole = kHeader + line("01", "0003A980", "00000004", "1000");
  CHECK(stalled_of(whole, 1000) == std::set<std::string>{"198.18.7.3"});
  CHECK(stalled_of(kHeader + line("01", "0003A980", "00000001", "1000"), 1000).empty());  // a lossy moment
  CHECK(stalled_of(kHeader + line("01", "00000000", "00000004", "1000"), 1000).empty());  // nothing waits
  CHECK(stalled_of(kHeader + line("02", "0003A980", "00000004", "1000"), 1000).empty());  // not open yet
  CHECK(stalled_of(whole, 1001).empty());                                                 // somebody else's
}

TEST_CASE("addresses of both families are read", "[stalled_connections]") {
  const std::string v6 = line("01", "00000001", "00000003", "0", "B80D0120000000000000000001000000:0400");
  CHECK(stalled_of(kHeader + v6, 0) == std::set<std::string>{"2001:db8::1"});
  const std::string mapped = line("01", "00000001", "00000003", "0", "0000000000000000FFFF0000030712C6:0400");
  CHECK(stalled_of(kHeader + mapped, 0) == std::set<std::string>{"198.18.7.3"});
}

TEST_CASE("what is no such table tells nothing", "[stalled_connections]") {
  for (const std::string& text : {std::string(), std::string("x\n\n:::::\n"), std::string(1000, '\0'),
                                  line("01", "zz", "00000004", "0"), line("01", "00000001", "FFFFFFFFFFFFFFFF", "0"),
                                  line("01", "00000001", "00000004", "-1"), line("01", "1", "4", "0", "0307:1")}) {
    CHECK(stalled_of(text, 0).empty());
  }
}
