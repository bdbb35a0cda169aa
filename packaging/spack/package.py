# Copyright (c) 2026, the busbar authors
# SPDX-License-Identifier: BSD-3-Clause
#
# A recipe for Spack: put it into a repository of your own as packages/busbar/package.py (`spack repo create`), and let
# `url` name a tarball that `make dist` made.

from spack.package import *


class Busbar(CMakePackage):
    """Benchmarks of collective communication over NCCL and MPI (nccl-tests' options and table), acceptance of clusters,
    the slow node or link by name, hangs with the rank to blame."""

    homepage = "https://example.org/busbar"
    url = "file:///path/to/busbar-0.2.0.tar.xz"
    license("BSD-3-Clause")

    version("0.2.0")

    variant("cuda", default=False, description="The NCCL backend: benchmarks on GPUs")
    conflicts("%gcc@:11", msg="C++20 as of GCC 12")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("cmake@3.22:", type="build")
    depends_on("ninja", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("python@3.8:", type="build")
    depends_on("mpi")
    depends_on("hwloc@2:")
    depends_on("fmt@9:")
    depends_on("yaml-cpp@0.7:")
    depends_on("nlohmann-json@3.11:")
    depends_on("boost@1.74:+math", type="build")
    depends_on("re2@2022-06-01:")
    depends_on("libarchive@3.6:")
    depends_on("sqlite@3.24:")
    depends_on("openssl@3:")
    depends_on("cuda@12:", when="+cuda")
    depends_on("nccl@2.28:", when="+cuda")

    generator("ninja")

    def cmake_args(self):
        args = [
            self.define_from_variant("BUSBAR_CUDA", "cuda"),
            self.define("BUSBAR_TESTS", False),
            self.define("MPI_HOME", self.spec["mpi"].prefix),
        ]
        if self.spec.satisfies("+cuda"):
            args += [self.define("CUDA_HOME", self.spec["cuda"].prefix),
                     self.define("NCCL_HOME", self.spec["nccl"].prefix)]
        return args

    @property
    def build_targets(self):
        return ["programs", "manual"]

    def test_version(self):
        """busbar starts"""
        Executable(self.prefix.bin.busbar)("--version")
