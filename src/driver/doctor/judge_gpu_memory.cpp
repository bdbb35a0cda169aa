#include "driver/doctor/judge_gpus.h"
#include "driver/doctor/make_row.h"

#include <fmt/format.h>

namespace busbar {
namespace {

void judge_ecc(const GpuFacts& gpu, const std::string& subject, Rows& rows) {
  constexpr const char* kCheck = "gpu.ecc";
  constexpr std::uint64_t kManySram = 10'000, kManyDram = 20'000'000;  // Azure's node health checks
  if (!gpu.ecc_uncorrected && !gpu.sram_uncorrected) return;
  if (const std::uint64_t errors = gpu.ecc_uncorrected.value_or(0); errors > 0) {
    rows.push_back(bad_row(Outcome::fail, kCheck, subject, fmt::format("{} uncorrected", errors),
                           "memory errors that were not corrected, since the driver was loaded",
                           "drain the host, reset the GPU; return the board if it comes again"));
  } else if (const std::uint64_t sram = gpu.sram_uncorrected.value_or(0); sram > 0) {
    rows.push_back(bad_row(Outcome::fail, kCheck, subject, fmt::format("{} uncorrected in SRAM", sram),
                           "errors in the GPU's own memories cannot be mapped away", "return the board"));
  } else if (gpu.sram_corrected.value_or(0) > kManySram || gpu.dram_corrected.value_or(0) > kManyDram) {
    rows.push_back(bad_row(
        Outcome::warn, kCheck, subject,
        fmt::format("{} corrected in SRAM, {} in DRAM", gpu.sram_corrected.value_or(0), gpu.dram_corrected.value_or(0)),
        "unusually many errors, all corrected", "watch it; uncorrected ones may follow"));
  } else {
    rows.push_back(ok_row(kCheck, subject, "none uncorrected"));
  }
}

void judge_remapping(const GpuFacts& gpu, const std::string& subject, Rows& rows) {
  constexpr const char* kCheck = "gpu.row_remap";
  constexpr unsigned kMostRows = 512;  // as many as a GPU can replace (NVIDIA, GPU memory error management)
  if (!gpu.rows_remapped_uncorrected) return;
  const unsigned rows_lost = *gpu.rows_remapped_uncorrected;
  if (gpu.remap_failed || rows_lost > kMostRows) {
    rows.push_back(bad_row(Outcome::fail, kCheck, subject, "failed", "a bad row of memory could not be replaced",
                           "return the board"));
  } else if (gpu.remap_pending) {
    rows.push_back(bad_row(Outcome::fail, kCheck, subject, "pending", "a bad row of memory waits to be replaced",
                           fmt::format("drain the host; nvidia-smi -r -i {}, or reboot", gpu.index)));
  } else if (rows_lost > 0) {
    rows.push_back(bad_row(Outcome::warn, kCheck, subject, fmt::format("{} replaced", rows_lost),
                           "rows of memory with uncorrected errors were replaced; the GPU is good again",
                           "watch it; return the board if the number grows"));
  } else {
    rows.push_back(ok_row(kCheck, subject, "none"));
  }
}

void judge_retirement(const GpuFacts& gpu, const std::string& subject, Rows& rows) {
  constexpr const char* kCheck = "gpu.retired_pages";
  if (!gpu.pages_retired) return;
  if (gpu.retirement_pending) {
    rows.push_back(bad_row(Outcome::fail, kCheck, subject, "pending", "a bad page of memory waits to be retired",
                           fmt::format("drain the host; nvidia-smi -r -i {}, or reboot", gpu.index)));
  } else if (*gpu.pages_retired > 0) {
    rows.push_back(bad_row(Outcome::warn, kCheck, subject, fmt::format("{} retired", *gpu.pages_retired),
                           "bad pages of memory were taken out of use", "watch it; NVIDIA replaces boards from 60 on"));
  } else {
    rows.push_back(ok_row(kCheck, subject, "none"));
  }
}

}  // namespace

void judge_gpu_memory(const GpuFacts& gpu, Rows& rows) {
  const std::string subject = gpu_subject(gpu);
  judge_ecc(gpu, subject, rows);
  judge_remapping(gpu, subject, rows);
  judge_retirement(gpu, subject, rows);
}

}  // namespace busbar
