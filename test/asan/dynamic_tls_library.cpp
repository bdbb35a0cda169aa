// Opened at run time, so that its variable of each thread lies where malloc puts it.
namespace {
thread_local volatile char kept[6];
}  // namespace

extern "C" volatile char* own_variable() { return kept; }
