// Would catch: NCCL_TESTS_SPLIT="MOD2" or a hexadecimal mask that groups ranks otherwise than nccl-tests, so that "one
// communicator per node" measures something else; MOD 0 as a crash; a typing error as one group.

#include "common/base/error.h"
#include "common/base/options.h"

#include <catch2/catch.hpp>

#include <map>
#include <vector>

using namespace busbar;
using Catch::Contains;

namespace {

std::vector<int> colors(std::string_view split) {
  std::vector<int> result;
  for (int process = 0; process < 8; ++process) result.push_back(split_color(split, process));
  return result;
}

Config config_from(const std::map<std::string, std::string>& variables) {
  Config config;
  apply_environment(config, [&](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
  return config;
}

std::string complaint(const std::map<std::string, std::string>& variables) {
  try {
    config_from(variables);
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::bad_config);
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("splits group processes as nccl-tests does", "[base][split]") {
  CHECK(colors("") == std::vector<int>{0, 0, 0, 0, 0, 0, 0, 0});
  CHECK(colors("MOD 2") == std::vector<int>{0, 1, 0, 1, 0, 1, 0, 1});
  CHECK(colors("DIV 4") == std::vector<int>{0, 0, 0, 0, 1, 1, 1, 1});
  CHECK(colors("AND 3") == std::vector<int>{0, 1, 2, 3, 0, 1, 2, 3});
  CHECK(colors("OR 4") == std::vector<int>{4, 5, 6, 7, 4, 5, 6, 7});
}

TEST_CASE("words and signs, either case, with or without a blank, three bases", "[base][split]") {
  for (const char* text : {"MOD 3", "mod3", "%3", "% 3", "Mod 0x3", "%0b11", "MOD\t3"}) {
    INFO(text);
    CHECK(colors(text) == std::vector<int>{0, 1, 2, 0, 1, 2, 0, 1});
  }
  CHECK(colors("&0x1") == colors("MOD 2"));
  CHECK(colors("/0b10") == std::vector<int>{0, 0, 1, 1, 2, 2, 3, 3});
  CHECK(colors("|0X8") == std::vector<int>{8, 9, 10, 11, 12, 13, 14, 15});
  CHECK(colors("AND 0xffffffff") == std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7});
}

TEST_CASE("what is not a split is rejected", "[base][split]") {
  for (const char* text : {"MOD", "MOD 0", "DIV 0x0", "2", "MOD -1", "MOD 2x", "XOR 2", "AND 0x", "0b", "&0b2",
                           "OR 0xffffffff", "AND 0x1ffffffff", "MOD 2 ", "per node"}) {
    INFO(text);
    CHECK_THROWS_AS(split_color(text, 3), Error);
  }
}

TEST_CASE("variables that are unset or empty change nothing", "[base][environment]") {
  CHECK(config_from({}) == Config{});
  CHECK(config_from({{"NCCL_TESTS_SPLIT", ""}, {"NCCL_TESTS_DEVICE", ""}}) == Config{});
}

TEST_CASE("variables set what they name", "[base][environment]") {
  const Config config = config_from({{"NCCL_TESTS_DEVICE", "3"},
                                     {"NCCL_TESTS_MIN_BW", "12.5"},
                                     {"NCCL_TESTS_SPLIT", "MOD 2"},
                                     {"NCCL_TESTS_ALLTOALLV_SPREAD", "0.25"},
                                     {"NCCL_TESTS_ALLTOALLV_MATRIX_FILE", "traffic.txt"},
                                     {"NCCL_TESTS_ALLTOALLV_MATRIX_SCALE", "2"}});
  CHECK(config.base_device == 3);
  CHECK(config.min_bw == 12.5);
  CHECK(config.split == "MOD 2");
  CHECK(config.traffic_spread == 0.25);
  CHECK(config.traffic_file == "traffic.txt");
  CHECK(config.traffic_scale == 2);
}

TEST_CASE("the mask is hexadecimal and wins over the split", "[base][environment]") {
  const Config config = config_from({{"NCCL_TESTS_SPLIT_MASK", "10"}, {"NCCL_TESTS_SPLIT", "MOD 2"}});
  CHECK(split_color(config.split, 31) == 16);
  CHECK(split_color(config_from({{"NCCL_TESTS_SPLIT_MASK", "0xF"}}).split, 31) == 15);
}

TEST_CASE("a bad variable is named", "[base][environment]") {
  CHECK(complaint({{"NCCL_TESTS_DEVICE", "gpu0"}}) ==
        "environment variable NCCL_TESTS_DEVICE: 'gpu0' is not a whole number of at least 0");
  CHECK_THAT(complaint({{"NCCL_TESTS_MIN_BW", "fast"}}), Contains("NCCL_TESTS_MIN_BW"));
  CHECK_THAT(complaint({{"NCCL_TESTS_SPLIT", "MOD 0"}}), Contains("NCCL_TESTS_SPLIT: 'MOD 0' is not a split"));
  CHECK_THAT(complaint({{"NCCL_TESTS_SPLIT_MASK", "xyz"}}), Contains("NCCL_TESTS_SPLIT_MASK"));
  CHECK_THAT(complaint({{"NCCL_TESTS_ALLTOALLV_SPREAD", "1.5"}}), Contains("from 0 to 1"));
  CHECK_THAT(complaint({{"NCCL_TESTS_ALLTOALLV_MATRIX_SCALE", "-1"}}), Contains("MATRIX_SCALE"));
}
