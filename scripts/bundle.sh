#!/usr/bin/env bash
# Makes BUILDDIR/busbar-VERSION-MPI-linux-x86_64.tar.xz for machines without package access: unpack anywhere, run
# ./busbar-run. Inside: the executables, configs, scripts, and every shared library that a bare machine may lack, the
# run-time and plugins of the MPI that they were built with (openmpi, mpich; none: no MPI) included. Left to the machine: glibc (the
# launcher checks its version), the GPU driver, NCCL unless BUNDLE_NCCL=1, and the RDMA libraries with what they use:
# those must match the machine's drivers, and NCCL would be given ours. Open MPI then has TCP and shared memory, which is
# also Debian's default.
set -euo pipefail
cd "$(dirname "$0")/.."

builddir=$(cd "$1" && pwd)
of_build() { sed -n "s/^$1:[A-Z]*=//p" "$builddir/CMakeCache.txt"; }
mpi=$(of_build BUSBAR_MPI_NAME)
name=busbar-$(of_build CMAKE_PROJECT_VERSION)-${mpi/none/no-mpi}-linux-$(uname -m)
stage=$builddir/$name

left_to_machine='^(ld-linux.*|lib(c|m|mvec|pthread|rt|dl|resolv|util|nsl|anl|nss_.*|cuda|nvidia-.*))\.so'
hardware_only='lib(ibverbs|rdmacm|efa|fabric|psm2|psm_infinipath|infinipath|uc[pst]|nl-[a-z0-9-]*|oshmem)\.so'
only_gloos='^lib(gloo|hiredis|ibverbs|nl-[a-z0-9-]*)\.so'

# Path of a directory or program of the Open MPI that the executables were linked with.
mpi_path() { ompi_info --parsable --path "$1" | cut -d: -f3; }

is_elf() { [[ -f $1 && $(head -c 4 "$1" | tr -d '\0') == $'\x7fELF' ]]; }

# busbar-look is static.
is_dynamic() { is_elf "$1" && readelf -d "$1" | grep -q NEEDED; }

# Copies the plugins of a directory except those for hardware or libraries that are left to the machine.
copy_plugins() {
  local from=$1 to=$2 plugin needs
  mkdir -p "$to"
  for plugin in "$from"/*.so; do
    needs=$(ldd "$plugin")
    if ! grep -qE "$hardware_only|not found" <<<"$needs"; then
      cp -L "$plugin" "$to"
    fi
  done
}

copy_programs() {
  local suffix
  suffix=$(of_build NAME_SUFFIX)
  mkdir -p "$stage/bin"
  cp "$builddir"/*_perf"$suffix" "$builddir"/busbar{,-look}"$suffix" "$stage/bin/"
  mkdir -p "$stage/lib" "$stage/scripts"
  cp "$builddir/libbusbar_tuner.so" "$stage/lib/"
  if [[ $mpi != none ]]; then
    cp "$builddir/libbusbar_mpi.so" "$stage/bin/"  # programs look for it next to themselves
  fi
  if [[ -e $builddir/libbusbar_gloo.so ]]; then
    copy_gloo
  fi
  cp -r configs "$stage/" 2>/dev/null || true
  if [[ $mpi == none ]]; then
    return  # gpu_check.sh starts its ranks with mpirun
  fi
  cp scripts/gpu_check.sh "$stage/scripts/" 2>/dev/null || true
  if [[ -e $builddir/test/kernels_gpu ]]; then
    cp "$builddir/test/kernels_gpu" "$stage/bin/"
  fi
  # Where gpu_check.sh reads what there is to check.
  mkdir -p "$stage/src/collectives"
  cp src/collectives/collective_list.h "$stage/src/collectives/"
}

# Gloo brings RDMA libraries, in a folder of their own: where NCCL runs, the machine's must be found.
copy_gloo() {
  local library
  cp "$builddir/libbusbar_gloo.so" "$stage/bin/"
  mkdir -p "$stage/lib/gloo"
  ldd "$builddir/libbusbar_gloo.so" | awk '$2 == "=>" && $3 ~ /^\// {print $3}' | while read -r library; do
    if [[ ${library##*/} =~ $only_gloos ]]; then
      cp -L "$library" "$stage/lib/gloo/"
    fi
  done
}

copy_open_mpi() {
  cp -L "$(mpi_path bindir)/orterun" "$stage/bin/mpirun"
  cp -L "$(mpi_path bindir)/orted" "$stage/bin/"
  copy_plugins "$(mpi_path pkglibdir)" "$stage/lib/openmpi"
  mkdir -p "$stage/share" "$stage/etc"
  cp -r "$(mpi_path pkgdatadir)" "$stage/share/openmpi"
  cp "$(mpi_path sysconfdir)"/openmpi-mca-params.conf "$stage/etc/"

  # PMIx is a library of its own in some distributions, with plugins and texts beside it.
  local pmix
  pmix=$(ldd "$stage"/lib/openmpi/mca_pmix_*.so | awk '/libpmix\.so/ {print $3; exit}')
  if [[ -n "$pmix" ]]; then
    pmix=$(dirname "$(readlink -f "$pmix")")
    copy_plugins "$pmix/pmix" "$stage/lib/pmix"
    cp -r "$pmix/../share/pmix" "$stage/share/pmix"
  fi
}

copy_mpich() {
  local from program
  from=$(dirname "$(readlink -f "$(of_build MPIEXEC_EXECUTABLE)")")
  for program in mpiexec.hydra hydra_pmi_proxy; do
    cp -L "$from/$program" "$stage/bin/"
  done
  ln -s mpiexec.hydra "$stage/bin/mpiexec"
  ln -s mpiexec.hydra "$stage/bin/mpirun"
}

find_nccl() {
  local library
  for library in ${NCCL_HOME:+"$NCCL_HOME"/lib/libnccl.so.2} /usr/local/cuda/lib{64,}/libnccl.so.2 \
                 "/usr/lib/$(uname -m)-linux-gnu/libnccl.so.2"; do
    if [[ -e $library ]]; then
      echo "$library"
      return
    fi
  done
  echo "BUNDLE_NCCL=1, but libnccl.so.2 was not found; set NCCL_HOME" >&2
  return 1
}

copy_libraries() {
  local library
  find "$stage" -type f | while read -r file; do if is_dynamic "$file"; then ldd "$file"; fi; done |
    awk '$2 == "=>" && $3 ~ /^\// {print $1, $3}' | sort -u | while read -r soname library; do
    if [[ ! $soname =~ $left_to_machine && ! $soname =~ $only_gloos ]]; then
      cp -L "$library" "$stage/lib/$soname"
    fi
  done
  if [[ "${BUNDLE_NCCL:-0}" == 1 ]]; then
    cp -L "$(find_nccl)" "$stage/lib/"
  fi
}

# RPATH rather than LD_LIBRARY_PATH, which would also reach the machine's own programs that are started from here.
strip_and_relocate() {
  local file
  find "$stage" -type f | while read -r file; do
    if is_elf "$file"; then
      chmod u+w "$file"
      strip --strip-unneeded "$file"
    fi
    if is_dynamic "$file"; then
      case $file in
        */bin/libbusbar_gloo.so) patchelf --force-rpath --set-rpath "\$ORIGIN/../lib/gloo:\$ORIGIN/../lib" "$file" ;;
        */bin/*) patchelf --force-rpath --set-rpath "\$ORIGIN/../lib" "$file" ;;
        */lib/openmpi/* | */lib/pmix/*) patchelf --force-rpath --set-rpath "\$ORIGIN/.." "$file" ;;
        *) patchelf --force-rpath --set-rpath "\$ORIGIN" "$file" ;;
      esac
    fi
  done
}

newest_glibc_needed() {
  find "$stage" -type f | while read -r file; do if is_dynamic "$file"; then objdump -T "$file"; fi; done |
    grep -oE 'GLIBC_[0-9]+\.[0-9]+' | sort -uV | tail -n 1 | cut -d_ -f2
}

rm -rf "$stage"
copy_programs
case $mpi in
  openmpi) copy_open_mpi ;;
  mpich) copy_mpich ;;
  none) ;;
  *)
    echo "This build's MPI ($mpi) cannot be bundled; \`make bundle MPI=openmpi\` or MPI=mpich can" >&2
    exit 1
    ;;
esac
copy_libraries
strip_and_relocate
scripts/check_search_paths.sh "$stage"
if grep -rlaF -e "$PWD/src/" -e "$PWD/test/" "$stage"; then
  echo "these files name the folder in which they were built" >&2
  exit 1
fi
start="mpirun -n 4 all_reduce_perf" with="or mpirun, with the libraries and the MPI ($mpi) that lie here"
if [[ $mpi == none ]]; then
  start="all_reduce_perf -g 4" with="with the libraries that lie here"
fi
sed "s/@GLIBC@/$(newest_glibc_needed)/; s/@WITH@/$with/; s/@START@/$start/" scripts/busbar-run.in >"$stage/busbar-run"
chmod 755 "$stage/busbar-run"
# The programs have much in common, and each is longer than the 8 MiB in which xz looks for that by default.
XZ_OPT=-9 tar -C "$builddir" --owner=0 --group=0 -cJf "$builddir/$name.tar.xz" "$name"
rm -rf "$stage"
# A machine that is lent for minutes gets no more than that.
readonly most_bytes=$((64 << 20))
if [[ "${BUNDLE_NCCL:-0}" != 1 ]] && (($(stat -c %s "$builddir/$name.tar.xz") > most_bytes)); then
  echo "$builddir/$name.tar.xz is larger than 64 MiB" >&2
  exit 1
fi
echo "$builddir/$name.tar.xz ($(du -h "$builddir/$name.tar.xz" | cut -f1))"
