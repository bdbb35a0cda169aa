#include "common/processes/comm.h"

#include "common/base/error.h"
#include "common/processes/mpi_handle.h"

#include <cstdint>
#include <exception>

namespace busbar {
namespace {

int checked_int(std::size_t n) {
  if (n > static_cast<std::size_t>(INT32_MAX)) {
    throw Error(ExitCode::internal, "a control message of " + std::to_string(n) + " elements is too long for MPI");
  }
  return static_cast<int>(n);
}

template <class T>
void allreduce(const Comm& comm, std::span<T> values, MPI_Datatype type, MPI_Op op) {
  MPI_Allreduce(MPI_IN_PLACE, values.data(), checked_int(values.size()), type, op, handle(comm));
}

template <class T>
T one(const Comm& comm, T value, MPI_Datatype type, MPI_Op op) {
  allreduce(comm, std::span<T>(&value, 1), type, op);
  return value;
}

}  // namespace

Comm::Comm(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Comm::Comm(Comm&&) noexcept = default;
Comm& Comm::operator=(Comm&&) noexcept = default;

Comm::~Comm() {
  int finalized = 0;
  // A Comm may outlive MPI_Finalize in error paths; freeing is then MPI's business no more.
  if (impl_ && impl_->owned && MPI_Finalized(&finalized) == MPI_SUCCESS && finalized == 0 &&
      std::uncaught_exceptions() == 0) {
    MPI_Comm_free(&impl_->comm);
  }
}

int Comm::rank() const {
  int rank = 0;
  MPI_Comm_rank(impl_->comm, &rank);
  return rank;
}

int Comm::size() const {
  int size = 0;
  MPI_Comm_size(impl_->comm, &size);
  return size;
}

void Comm::barrier() const { MPI_Barrier(impl_->comm); }

void Comm::broadcast(void* data, std::size_t nbytes, int root) const {
  MPI_Bcast(data, checked_int(nbytes), MPI_BYTE, root, impl_->comm);
}

std::string Comm::broadcast(std::string text, int root) const {
  std::int64_t length = static_cast<std::int64_t>(text.size());
  broadcast(&length, sizeof length, root);
  text.resize(static_cast<std::size_t>(length));
  broadcast(text.data(), text.size(), root);
  return text;
}

void Comm::sum(std::span<double> v) const { allreduce(*this, v, MPI_DOUBLE, MPI_SUM); }
void Comm::min(std::span<double> v) const { allreduce(*this, v, MPI_DOUBLE, MPI_MIN); }
void Comm::max(std::span<double> v) const { allreduce(*this, v, MPI_DOUBLE, MPI_MAX); }
void Comm::sum(std::span<std::int64_t> v) const { allreduce(*this, v, MPI_INT64_T, MPI_SUM); }
void Comm::min(std::span<std::int64_t> v) const { allreduce(*this, v, MPI_INT64_T, MPI_MIN); }
void Comm::max(std::span<std::int64_t> v) const { allreduce(*this, v, MPI_INT64_T, MPI_MAX); }
double Comm::sum(double v) const { return one(*this, v, MPI_DOUBLE, MPI_SUM); }
double Comm::min(double v) const { return one(*this, v, MPI_DOUBLE, MPI_MIN); }
double Comm::max(double v) const { return one(*this, v, MPI_DOUBLE, MPI_MAX); }
std::int64_t Comm::sum(std::int64_t v) const { return one(*this, v, MPI_INT64_T, MPI_SUM); }
std::int64_t Comm::min(std::int64_t v) const { return one(*this, v, MPI_INT64_T, MPI_MIN); }
std::int64_t Comm::max(std::int64_t v) const { return one(*this, v, MPI_INT64_T, MPI_MAX); }

std::vector<std::string> Comm::gather(const std::string& text) const {
  const int n = size();
  const bool root = rank() == 0;
  int length = checked_int(text.size());
  std::vector<int> lengths(root ? n : 0);
  MPI_Gather(&length, 1, MPI_INT, lengths.data(), 1, MPI_INT, 0, impl_->comm);
  std::vector<int> offsets(lengths.size(), 0);
  std::size_t total = 0;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    offsets[i] = checked_int(total);
    total += lengths[i];
  }
  std::string all(total, '\0');
  MPI_Gatherv(text.data(), length, MPI_CHAR, all.data(), lengths.data(), offsets.data(), MPI_CHAR, 0, impl_->comm);
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < lengths.size(); ++i) texts.push_back(all.substr(offsets[i], lengths[i]));
  return texts;
}

std::vector<double> Comm::gather(std::span<const double> values) const {
  std::vector<double> all(rank() == 0 ? values.size() * size() : 0);
  MPI_Gather(values.data(), checked_int(values.size()), MPI_DOUBLE, all.data(), checked_int(values.size()), MPI_DOUBLE,
             0, impl_->comm);
  return all;
}

Comm Comm::split(int color) const {
  auto impl = std::make_unique<Impl>();
  MPI_Comm_split(impl_->comm, color, rank(), &impl->comm);
  impl->owned = true;
  return Comm(std::move(impl));
}

Comm Comm::split_by_host() const {
  auto impl = std::make_unique<Impl>();
  MPI_Comm_split_type(impl_->comm, MPI_COMM_TYPE_SHARED, rank(), MPI_INFO_NULL, &impl->comm);
  impl->owned = true;
  return Comm(std::move(impl));
}

bool on_one_host(const Comm& world) { return world.min(std::int64_t{world.split_by_host().size()}) == world.size(); }

}  // namespace busbar
