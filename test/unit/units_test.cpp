// The bugs these would catch: `-e 1.5G` or `-b 1T` read as another size (a double rounds above 2^53, a shift
// overflows), and "64Q" or "-8" taken for a number and then swept for ever.

#include "common/base/units.h"

#include "common/base/error.h"
#include "common/base/text.h"

#include <catch2/catch.hpp>

#include <functional>
#include <string>

using namespace busbar;

namespace {

std::string error_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::bad_config);
    return error.what();
  }
  return "no error";
}

bool is_rejected(std::string_view text) {
  return error_of([&] { parse_bytes(text); }) != "no error";
}

}  // namespace

TEST_CASE("sizes are numbers with powers of 1024 in either case", "[base][units]") {
  CHECK(parse_bytes("0") == 0);
  CHECK(parse_bytes("8") == 8);
  CHECK(parse_bytes("1k") == 1024);
  CHECK(parse_bytes("1K") == 1024);
  CHECK(parse_bytes("64M") == 67108864);
  CHECK(parse_bytes("64mib") == 67108864);
  CHECK(parse_bytes("1GB") == 1073741824);
  CHECK(parse_bytes("1GiB") == 1073741824);
  CHECK(parse_bytes("2T") == 2199023255552);
  CHECK(parse_bytes("8B") == 8);
  CHECK(parse_bytes("64 MiB") == 67108864);
}

TEST_CASE("fractions of a unit count, fractions of a byte are dropped", "[base][units]") {
  CHECK(parse_bytes("0.5K") == 512);
  CHECK(parse_bytes("1.5G") == 1610612736);
  CHECK(parse_bytes(".25M") == 262144);
  CHECK(parse_bytes("1.3K") == 1331);  // 1331.2
  CHECK(parse_bytes("0.1") == 0);
  CHECK(parse_bytes("1e3") == 1000);
}

TEST_CASE("whole sizes are exact up to the largest", "[base][units]") {
  CHECK(parse_bytes("9007199254740993") == 9007199254740993ull);  // 2^53 + 1: no double
  CHECK(parse_bytes("9223372036854775807") == 9223372036854775807ull);
  CHECK(parse_bytes("8388607T") == 8388607ull << 40);
  CHECK(is_rejected("9223372036854775808"));
  CHECK(is_rejected("8388608T"));
  CHECK(is_rejected("8388608.0T"));
  CHECK(is_rejected("99999999999999999999999"));
  CHECK(is_rejected("1e30"));
  CHECK(is_rejected("1e400"));
}

TEST_CASE("what is not a size is rejected", "[base][units]") {
  for (const char* text :
       {"",     " ",   "K",   "abc",      "-1",   "-0.5K", "+8",  "64Q", "8KK",  "8Kb2", "1GiBs", "8 8",
        "0x10", "nan", "inf", "infinity", "-nan", "1.5.2", "1,5", "8iB", "8M\n", "1e",   "--8"}) {
    INFO(text);
    CHECK(is_rejected(text));
  }
  CHECK(is_rejected(std::string_view("8\0", 2)));
  CHECK(is_rejected(std::string_view("8K\0B", 4)));
}

TEST_CASE("sizes for people have a unit and at most four digits", "[base][units]") {
  CHECK(format_bytes(0) == "0 B");
  CHECK(format_bytes(1023) == "1023 B");
  CHECK(format_bytes(1024) == "1 KiB");
  CHECK(format_bytes(1536) == "1.5 KiB");
  CHECK(format_bytes(67108864) == "64 MiB");
  CHECK(format_bytes(1610612736) == "1.5 GiB");
  CHECK(format_bytes(1234567890) == "1.15 GiB");  // 1.14978
  CHECK(format_bytes(~0ull) == "16 EiB");
}

TEST_CASE("durations for people have the unit that fits", "[base][units]") {
  CHECK(format_duration(0.42) == "0.42 s");
  CHECK(format_duration(4.2) == "4.2 s");
  CHECK(format_duration(99.4) == "99 s");
  CHECK(format_duration(99.7) == "100 s");
  CHECK(format_duration(720) == "12 min");
  CHECK(format_duration(3 * 3600) == "3 h");
  CHECK(format_duration(5 * 86400) == "5 days");
}

TEST_CASE("whole numbers are decimal and in range", "[base][units]") {
  CHECK(parse_int("20", 1) == 20);
  CHECK(parse_int("-1", -1, 3) == -1);
  CHECK(parse_int("2147483647", 0) == 2147483647);
  CHECK(error_of([] { parse_int("abc", 1); }) == "'abc' is not a whole number of at least 1");
  CHECK(error_of([] { parse_int("4", 0, 3); }) == "'4' is not a whole number from 0 to 3");
  CHECK(error_of([] { parse_int("2147483648", 1); }) == "'2147483648' is not a whole number from 1 to 2147483647");
  for (const char* text : {"", " 1", "1 ", "1.0", "0x1", "1e3", "+1", "--1"}) {
    INFO(text);
    CHECK(error_of([&] { parse_int(text, 0); }) != "no error");
  }
}

TEST_CASE("numbers are finite and in range", "[base][units]") {
  CHECK(parse_double("1.5", 0) == 1.5);
  CHECK(parse_double("0", 0, 1) == 0);
  CHECK(error_of([] { parse_double("1.1", 0, 1); }) == "'1.1' is not a number from 0 to 1");
  CHECK(error_of([] { parse_double("nan", 0); }) == "'nan' is not a number of at least 0");
  CHECK(error_of([] { parse_double("inf", 0); }) == "'inf' is not a number of at least 0");
  CHECK(error_of([] { parse_double("1e999", 0); }) != "no error");
  CHECK(error_of([] { parse_double("1s", 0); }) != "no error");
}

TEST_CASE("switches are 0 and 1, or YAML's words", "[base][units]") {
  CHECK(parse_switch("1"));
  CHECK(parse_switch("true"));
  CHECK_FALSE(parse_switch("0"));
  CHECK_FALSE(parse_switch("false"));
  CHECK(error_of([] { parse_switch("2"); }) == "'2' is not 0 or 1");
}

TEST_CASE("user text in messages is short and printable", "[base][units]") {
  CHECK(in_quotes("abc") == "'abc'");
  CHECK(in_quotes("a\nb\x1b[31m") == "'a?b?[31m'");
  CHECK(in_quotes(std::string(100, 'x')) == "'" + std::string(60, 'x') + "...'");
  CHECK(printable("two\nlines") == "two?lines");
}
