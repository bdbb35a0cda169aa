// The bugs these would catch: a pickle read otherwise than Python reads it, a value that was named before it was filled
// left empty, an instruction that would call something passed over, a small file that fills the memory, and a crash by
// a file that is cut, damaged or holds itself.

#include "common/base/error.h"
#include "common/record/json_values.h"
#include "driver/readers/call_records.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include <cstddef>
#include <random>
#include <string>
#include <string_view>

using namespace busbar;
using namespace std::string_view_literals;

namespace {

// By pickle.dumps(..., protocol=2) and 4 of Python 3.11.
constexpr std::string_view kProtocol2 =
    "\x80\x02}q\x00(X\x01\x00\x00\x00tq\x01\x88X\x01\x00\x00\x00\x66q\x02\x89X\x01\x00\x00\x00nq\x03NX"
    "\x01\x00\x00\x00iq\x04]q\x05(K\x00K\xffM\x00\x01M\xff\xffJ\x00\x00\x01\x00J\xff\xff\xff\xff\x8a\x05"
    "\x00\x00\x00\x80\x00\x8a\x06\x00\x00\x00\x00\x00\xff\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x00@eX\x01"
    "\x00\x00\x00xq\x06G?\xf8\x00\x00\x00\x00\x00\x00X\x06\x00\x00\x00tuplesq\x07()K\x01\x85q\x08K\x01K"
    "\x02\x86q\x09K\x01K\x02K\x03\x87q\x0a(K\x01K\x02K\x03K\x04tq\x0btq\x0cX\x01\x00\x00\x00\x65q\x0d}q"
    "\x0eX\x01\x00\x00\x00zq\x0f]q\x10X\x01\x00\x00\x00uq\x11X\x04\x00\x00\x00\xc3\xa4\x0a\"q\x12X\x06"
    "\x00\x00\x00\x66ramesq\x13]q\x14(}q\x15(X\x04\x00\x00\x00nameq\x16X\x04\x00\x00\x00stepq\x17X\x04"
    "\x00\x00\x00lineq\x18KMuh\x15\x65u."sv;
constexpr std::string_view kProtocol4 =
    "\x80\x04\x95\xc2\x00\x00\x00\x00\x00\x00\x00}\x94(\x8c\x01t\x94\x88\x8c\x01\x66\x94\x89\x8c\x01n\x94"
    "N\x8c\x01i\x94]\x94(K\x00K\xffM\x00\x01M\xff\xffJ\x00\x00\x01\x00J\xff\xff\xff\xff\x8a\x05\x00\x00"
    "\x00\x80\x00\x8a\x06\x00\x00\x00\x00\x00\xff\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x00@e\x8c\x01x\x94G"
    "?\xf8\x00\x00\x00\x00\x00\x00\x8c\x06tuples\x94()K\x01\x85\x94K\x01K\x02\x86\x94K\x01K\x02K\x03\x87"
    "\x94(K\x01K\x02K\x03K\x04t\x94t\x94\x8c\x01\x65\x94}\x94\x8c\x01z\x94]\x94\x8c\x01u\x94\x8c\x04\xc3"
    "\xa4\x0a\"\x94\x8c\x06\x66rames\x94]\x94(}\x94(\x8c\x04name\x94\x8c\x04step\x94\x8c\x04line\x94KMuh"
    "\x15\x65u."sv;

constexpr std::string_view kPlain =
    R"({"t":true,"f":false,"n":null,"i":[0,255,256,65535,65536,-1,2147483648,-1099511627776,null],"x":1.5,)"
    R"("tuples":[[],[1],[1,2],[1,2,3],[1,2,3,4]],"e":{},"z":[],"u":"\u00e4\n\"",)"
    R"("frames":[{"name":"step","line":77},{"name":"step","line":77}]})";

std::string complaint(std::string_view bytes) {
  try {
    parse_json(json_of_pickle(bytes, "dump"), "dump");
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace

TEST_CASE("A pickle holds what Python reads in it", "[pickle]") {
  CHECK(parse_json(json_of_pickle(kProtocol2, "dump"), "dump") == parse_json(kPlain, "plain"));
  CHECK(parse_json(json_of_pickle(kProtocol4, "dump"), "dump") == parse_json(kPlain, "plain"));
  // PyTorch gives a list its place in the memory once it is full.
  CHECK(json_of_pickle("\x80\x02]((K\x01K\x02\x86tq\x05h\x05\x65."sv, "dump") == "[[[1,2]],[[1,2]]]");
  CHECK(json_of_pickle("\x80\x02]U\x01za]r\x01\x02\x03\x04\x8a\x00\x61\x61."sv, "dump") == R"(["z",[0]])");
}

TEST_CASE("What would make or call something is refused by its name", "[pickle]") {
  // pickle.dumps(Fraction(1, 2), protocol=2) and 4
  CHECK_THAT(complaint("\x80\x02\x63\x66ractions\nFraction\nq\x00X\x03\x00\x00\x00\x31/2q\x01\x85q\x02Rq\x03."sv),
             Catch::Contains("dump: the pickle holds GLOBAL,"));
  CHECK_THAT(complaint("\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x02id\x85R."sv), Catch::Contains("STACK_GLOBAL"));
  CHECK_THAT(complaint("\x80\x02NNR."sv), Catch::Contains("REDUCE"));
  CHECK_THAT(complaint("\x80\x02NNb."sv), Catch::Contains("BUILD"));
  CHECK_THAT(complaint("\x80\x02N\x82\x01."sv), Catch::Contains("instruction 0x82"));
  CHECK_THAT(complaint("\x80\x02}K\x01Ns."sv), Catch::Contains("a key that is not a string"));
}

TEST_CASE("A pickle that is cut, damaged or holds itself ends with a sentence", "[pickle]") {
  for (const std::string_view whole : {kProtocol2, kProtocol4}) {
    for (std::size_t size = 0; size < whole.size(); ++size) {
      INFO(size);
      CHECK_THAT(complaint(whole.substr(0, size)), Catch::Contains("is cut or damaged"));
    }
  }
  for (const std::string_view bad :
       {"\x80\x02."sv, "\x80\x02Na."sv, "\x80\x02NNa."sv, "\x80\x02}Na."sv, "\x80\x02N(a."sv, "\x80\x02}(Nu."sv,
        "\x80\x02h\x07."sv, "\x80\x02\x85."sv, "\x80\x02}NNe."sv, "\x80\x02X\xff\xff\xff\xff."sv,
        "\x80\x02\x8d\xff\xff\xff\xff\xff\xff\xff\xff."sv, "\x80\x02]q\x00(q\x01."sv}) {
    CHECK_THAT(complaint(bad), Catch::Contains("is cut or damaged"));
  }
  // loop = []; loop.append(loop)
  CHECK_THAT(complaint("\x80\x02]q\x00h\x00\x61."sv), Catch::Contains("is nested too deep"));
  CHECK_THAT(complaint("\x80\x02" + std::string(100000, ']') + std::string(99999, 'a') + "."),
             Catch::Contains("is nested too deep"));
}

TEST_CASE("A pickle that names one thing again and again does not fill the memory", "[pickle]") {
  // Thirty lists, each of which holds the one before twice: 64 GiB in JSON.
  std::string bomb = "\x80\x02U\x40" + std::string(64, 'x') + std::string("q\0", 2);
  for (char i = 0; i < 30; ++i) bomb += {']', 'q', static_cast<char>(i + 1), '(', 'h', i, 'h', i, 'e'};
  CHECK_THAT(complaint(bomb + "."), Catch::Contains("names large things too often"));
  // A text of 64 KiB a thousand times: 64 MiB.
  std::string text = std::string("\x80\x02(X\0\0\1\0", 8) + std::string(1 << 16, 'x') + std::string("q\0", 2);
  for (int i = 0; i < 1000; ++i) text += std::string("h\0", 2);
  CHECK_THAT(complaint(text + "t."), Catch::Contains("names large things too often"));
}

TEST_CASE("Damaged pickles are read or refused, nothing else", "[pickle]") {
  std::mt19937 random(7);
  for (int round = 0; round < 20000; ++round) {
    std::string bytes(round % 2 == 0 ? kProtocol2 : kProtocol4);
    for (int i = 0; i < 1 + round % 4; ++i) bytes[random() % bytes.size()] = static_cast<char>(random());
    complaint(bytes);
  }
}
