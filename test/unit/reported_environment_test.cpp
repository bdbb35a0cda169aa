// The bug these would catch: a result file that is passed on carries a password.

#include "common/record/json_values.h"

#include <catch2/catch.hpp>

#include <string>
#include <vector>

using namespace busbar;

TEST_CASE("Only the libraries' variables are reported, and no secrets", "[reported_environment][unit]") {
  const std::vector<std::string> all{"HOME=/root",           "NCCL_ALGO=Ring",         "MY_NCCL_X=1",
                                     "SLURM_JWT=eyJhbGciOi", "UCX_auth_token=abc",     "PMIX_SECURITY_MODE=native",
                                     "OMPI_X_PASSWORD=a=b",  "CUDA_CACHE_PATH=/c=d",   "AWS_SECRET_ACCESS_KEY=x",
                                     "NCCL_EMPTY=",          "SLURM_KEY_FILE=/secret", "NCCL_"};
  CHECK(reported_environment(all) == std::vector<std::string>{"NCCL_ALGO=Ring", "SLURM_JWT=***", "UCX_auth_token=***",
                                                              "PMIX_SECURITY_MODE=native", "OMPI_X_PASSWORD=***",
                                                              "CUDA_CACHE_PATH=/c=d",
                                                              "NCCL_EMPTY=", "SLURM_KEY_FILE=***", "NCCL_"});
}
