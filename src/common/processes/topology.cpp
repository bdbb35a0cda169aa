#include "common/processes/topology.h"

#include "common/base/error.h"
#include "common/base/text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <hwloc.h>

#include <memory>
#include <string_view>

namespace busbar {
namespace {

template <auto free>
struct FreeBy {
  void operator()(auto* object) const { free(object); }
};
using Topology = std::unique_ptr<hwloc_topology, FreeBy<hwloc_topology_destroy>>;
using Bitmap = std::unique_ptr<hwloc_bitmap_s, FreeBy<hwloc_bitmap_free>>;
using Text = std::unique_ptr<char, FreeBy<std::free>>;

Topology load(const std::string& xml_file, bool with_devices) {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) throw Error(ExitCode::internal, "hwloc cannot start");
  Topology topology(raw);
  if (!xml_file.empty() && hwloc_topology_set_xml(raw, xml_file.c_str()) != 0)
    throw Error(ExitCode::internal, fmt::format("hwloc cannot read the topology '{}'", xml_file));
  // Without devices the load is several times shorter, and every rank does it for its device line.
  hwloc_topology_set_io_types_filter(raw,
                                     with_devices ? HWLOC_TYPE_FILTER_KEEP_IMPORTANT : HWLOC_TYPE_FILTER_KEEP_NONE);
  if (hwloc_topology_load(raw) != 0) throw Error(ExitCode::internal, "hwloc cannot read this machine's topology");
  return topology;
}

std::string ranges(hwloc_const_bitmap_t set) {
  char* raw = nullptr;
  if (hwloc_bitmap_list_asprintf(&raw, set) < 0) return "?";
  return Text(raw).get();
}

/// "core 3", "NUMA nodes 0-1".
std::string counted(std::string_view noun, hwloc_const_bitmap_t set) {
  return fmt::format("{}{} {}", noun, hwloc_bitmap_weight(set) == 1 ? "" : "s", ranges(set));
}

/// The cores that `cpus` touches; hardware threads if the machine (often a virtual one) shows no cores.
std::string describe_cpus(hwloc_topology_t topology, hwloc_const_bitmap_t cpus) {
  const bool has_cores = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE) > 0;
  const hwloc_obj_type_t type = has_cores ? HWLOC_OBJ_CORE : HWLOC_OBJ_PU;
  const Bitmap found(hwloc_bitmap_alloc());
  for (hwloc_obj_t core = nullptr; (core = hwloc_get_next_obj_by_type(topology, type, core)) != nullptr;)
    if (hwloc_bitmap_intersects(core->cpuset, cpus)) hwloc_bitmap_set(found.get(), core->logical_index);
  return counted(has_cores ? "core" : "cpu", found.get());
}

/// The CPUs that this process is bound to; all CPUs of a foreign topology, or if the system does not say.
Bitmap bound_cpus(hwloc_topology_t topology) {
  Bitmap cpus(hwloc_bitmap_dup(hwloc_topology_get_allowed_cpuset(topology)));
  if (hwloc_topology_is_thissystem(topology)) {
    const Bitmap bound(hwloc_bitmap_alloc());
    if (hwloc_get_cpubind(topology, bound.get(), HWLOC_CPUBIND_PROCESS) == 0)
      hwloc_bitmap_and(cpus.get(), cpus.get(), bound.get());
  }
  return cpus;
}

/// The NUMA nodes of the nearest ancestor that has CPUs, for devices; by OS number, as numactl shows them.
std::string numa_of(hwloc_topology_t topology, hwloc_obj_t device) {
  const hwloc_obj_t host = hwloc_get_non_io_ancestor_obj(topology, device);
  if (host == nullptr || host->nodeset == nullptr || hwloc_bitmap_iszero(host->nodeset)) return "NUMA node unknown";
  return counted("NUMA node", host->nodeset);
}

struct Device {
  hwloc_obj_t pci = nullptr;
  std::string address;
  std::string name;  ///< "mlx5_0/ib0"; a GPU's is empty
};

std::string title(const Device& d) { return d.name.empty() ? d.address : fmt::format("{} {}", d.name, d.address); }

std::string address_of(hwloc_obj_t pci) {
  const auto& at = pci->attr->pcidev;
  return fmt::format("{:04x}:{:02x}:{:02x}.{:x}", at.domain, at.bus, at.dev, at.func);
}

/// The names of the device's network and OpenFabrics interfaces.
std::string interfaces_of(hwloc_obj_t pci) {
  std::vector<std::string> names;
  for (hwloc_obj_t os = pci->io_first_child; os != nullptr; os = os->next_sibling) {
    if (os->type != HWLOC_OBJ_OS_DEVICE || os->name == nullptr) continue;
    const hwloc_obj_osdev_type_t type = os->attr->osdev.type;
    if (type == HWLOC_OBJ_OSDEV_OPENFABRICS) names.insert(names.begin(), os->name);
    if (type == HWLOC_OBJ_OSDEV_NETWORK) names.emplace_back(os->name);
  }
  return fmt::format("{}", fmt::join(names, "/"));
}

struct Devices {
  std::vector<Device> gpus;
  std::vector<Device> nics;
  int visible = 0;  ///< PCI devices of any kind
};

Devices find_devices(hwloc_topology_t topology) {
  Devices devices;
  for (hwloc_obj_t pci = nullptr; (pci = hwloc_get_next_pcidev(topology, pci)) != nullptr;) {
    ++devices.visible;
    const auto& at = pci->attr->pcidev;
    const bool display = at.class_id == 0x0300 || at.class_id == 0x0302;
    if (at.vendor_id == 0x10de && display) devices.gpus.push_back({pci, address_of(pci), {}});
    const std::string interfaces = interfaces_of(pci);
    if (!interfaces.empty()) devices.nics.push_back({pci, address_of(pci), interfaces});
  }
  return devices;
}

int steps_to_top(hwloc_obj_t object) {
  int steps = 0;
  for (; object != nullptr; object = object->parent) ++steps;
  return steps;
}

hwloc_obj_t common_ancestor(hwloc_obj_t a, hwloc_obj_t b) {
  int a_steps = steps_to_top(a), b_steps = steps_to_top(b);
  for (; a_steps > b_steps; --a_steps) a = a->parent;
  for (; b_steps > a_steps; --b_steps) b = b->parent;
  while (a != b) {
    a = a->parent;
    b = b->parent;
  }
  return a;
}

/// How two devices meet, with nvidia-smi's distinctions but in whole words.
std::string_view meeting_place(hwloc_obj_t ancestor) {
  if (ancestor->type == HWLOC_OBJ_BRIDGE) {
    const bool host_bridge = ancestor->attr->bridge.upstream_type == HWLOC_OBJ_BRIDGE_HOST;
    return host_bridge ? "same PCIe root" : "same PCIe switch";
  }
  return ancestor->type == HWLOC_OBJ_MACHINE ? "across the machine" : "same socket or NUMA node";
}

/// The `others` whose meeting point with `device` is deepest: "mlx5_0 0000:19:00.0 (same PCIe switch)".
std::string nearest(const Device& device, const std::vector<Device>& others) {
  std::vector<std::string> names;
  hwloc_obj_t best = nullptr;
  for (const Device& other : others) {
    const hwloc_obj_t meeting = common_ancestor(device.pci, other.pci);
    if (best == nullptr || steps_to_top(meeting) > steps_to_top(best)) {
      names.clear();
      best = meeting;
    } else if (steps_to_top(meeting) < steps_to_top(best)) {
      continue;
    }
    names.push_back(title(other));
  }
  return fmt::format("{} ({})", fmt::join(names, ", "), meeting_place(best));
}

void describe(hwloc_topology_t topology, std::string_view kind, const std::vector<Device>& devices,
              std::string_view other_kind, const std::vector<Device>& others, std::vector<std::string>& lines) {
  for (const Device& device : devices) {
    std::string line = fmt::format("{} {}, {}", kind, title(device), numa_of(topology, device.pci));
    if (!others.empty()) line += fmt::format(", nearest {}: {}", other_kind, nearest(device, others));
    lines.push_back(std::move(line));
  }
}

std::string binding_of(hwloc_topology_t topology) {
  const Bitmap cpus = bound_cpus(topology);
  if (hwloc_bitmap_isequal(cpus.get(), hwloc_topology_get_allowed_cpuset(topology))) return "unbound";
  return describe_cpus(topology, cpus.get());
}

}  // namespace

std::string binding_text() { return binding_of(load("", false).get()); }

std::vector<std::string> topology_lines(const std::string& xml_file) {
  const Topology topology = load(xml_file, true);
  const Bitmap cpus = bound_cpus(topology.get());
  const Bitmap nodes(hwloc_bitmap_alloc());
  hwloc_cpuset_to_nodeset(topology.get(), cpus.get(), nodes.get());
  std::vector<std::string> lines{
      fmt::format("process {}, {}", binding_of(topology.get()), counted("NUMA node", nodes.get()))};

  const Devices devices = find_devices(topology.get());
  if (devices.visible == 0) {
    lines.emplace_back("no PCI devices are visible here (a container or a virtual machine without them?)");
    return lines;
  }
  describe(topology.get(), "GPU", devices.gpus, "NIC", devices.nics, lines);
  describe(topology.get(), "NIC", devices.nics, "GPU", devices.gpus, lines);
  return lines;
}

}  // namespace busbar
