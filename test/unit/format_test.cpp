// The bug these would catch: a large time or bandwidth runs into its neighbour, and two columns read as one number.

#include "common/output/format.h"

#include "report_fixture.h"

#include <catch2/catch.hpp>

#include <cmath>

using namespace busbar;

TEST_CASE("A number loses decimals, then its form, before it leaves its column", "[format][unit]") {
  CHECK(fit_number(0, 7) == "0.00");
  CHECK(fit_number(9999.99, 7) == "9999.99");
  CHECK(fit_number(9999.999, 7) == "10000.0");  // rounds up to one digit more
  CHECK(fit_number(123456.78, 7) == "123457");
  CHECK(fit_number(1234567, 7) == "1234567");
  CHECK(fit_number(9999999.6, 7) == "1.0e+07");
  CHECK(fit_number(12345678, 7) == "1.2e+07");
  CHECK(fit_number(999.99, 6) == "999.99");
  CHECK(fit_number(1000, 6) == "1000.0");
  CHECK(fit_number(123456, 6) == "123456");
  CHECK(fit_number(1234567, 6) == "1e+06");
}

TEST_CASE("What was not measured has no number", "[format][unit]") {
  CHECK(fit_number(std::nan(""), 7) == "-");
  CHECK(fit_busbw(0, 8) == "-");  // one rank
  CHECK(fit_busbw(1.5, 8) == "1.50");
}

TEST_CASE("Memory is told in three significant digits", "[format][unit]") {
  CHECK(memory_amount(0) == "0.00 B");
  CHECK(memory_amount(1023) == "1023 B");
  CHECK(memory_amount(1536) == "1.50 KB");
  CHECK(memory_amount(64 << 20) == "64.0 MB");
  CHECK(memory_amount(-(380 << 20)) == "-380 MB");
  CHECK(memory_amount(5000LL << 30) == "5000 GB");
}

TEST_CASE("A half counts as measured only where it exists and was asked for", "[format][unit]") {
  Row row = sample_row();
  Config config;
  CHECK(measured_half(config, row, false) == &row.out_of_place);
  CHECK(measured_half(config, row, true) == &row.in_place);
  config.placement = Placements::out;
  CHECK(measured_half(config, row, false) == &row.out_of_place);
  CHECK(measured_half(config, row, true) == nullptr);
  config.placement = Placements::in;
  CHECK(measured_half(config, row, false) == nullptr);
  row.in_place.supported = false;
  CHECK(measured_half(config, row, true) == nullptr);
}

TEST_CASE("A root is shown only where the collective has one", "[format][unit]") {
  CHECK(shown_root(kAllReduce, 3) == -1);
  CHECK(shown_root(kReduce, 3) == 3);
  CHECK(redop_text(Op::mulsum) == "mulsum");
  CHECK(redop_text(std::nullopt) == "none");
}
