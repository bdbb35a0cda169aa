# A thin front door: every rule calls CMake, CTest or a script. The variables are those of nccl-tests' Makefile.

BUILDDIR ?= build
DEBUG ?= 0
JOBS ?= $(shell nproc 2>/dev/null || echo 2)

# MPI=1 is accepted and ignored: an MPI that is there is used. MPI=NAME takes one of several, MPI=0 none.
mpi := $(patsubst 0,none,$(filter-out 1,$(MPI)))
ifneq ($(filter-out openmpi mpich none,$(mpi)),)
  $(error MPI=$(MPI) is not known: choose from openmpi, mpich, 0 (none); MPI_HOME=FOLDER takes any other)
endif

# Choices that CMake gets; a change of any of them configures anew, no change costs nothing.
preset := $(or $(PRESET),$(if $(filter 1,$(DEBUG)),debug,release))
choices := --preset $(preset) -DNAME_SUFFIX='$(NAME_SUFFIX)' -DMPI_HOME='$(MPI_HOME)' -DBUSBAR_MPI='$(mpi)' \
           -DCUDA_HOME='$(CUDA_HOME)' -DNCCL_HOME='$(NCCL_HOME)' -DNVCC_GENCODE='$(NVCC_GENCODE)'
# make's own job server is nothing to Ninja, and a plain Makefile below would complain about it.
# Scripts and tests start ranks with the launcher of the MPI that the build has.
with_launcher = BUSBAR_NAME_SUFFIX='$(NAME_SUFFIX)' \
                BUSBAR_MPIRUN="$$(sed -n 's/^MPIEXEC_EXECUTABLE:FILEPATH=//p' '$(BUILDDIR)/CMakeCache.txt')"
build_only := env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL cmake --build '$(BUILDDIR)' --parallel $(JOBS)

.NOTPARALLEL:
.PHONY: all help deps configure build-all build-benches run test-deps test test-asan test-tsan test-threads \
        test-mpich test-second-mpi test-no-mpi test-alone test-more bench experiments faults soak install deb deb-deps dist mutants \
        samples docs docs-deps lint-deps lint format bundle-deps bundle release clean

all: configure  ## Build the benchmarks into build/ (the default)
	@$(build_only) --target programs

help:  ## Show this
	@awk -F ':.*## *' '/^[a-z-]+:.*##/ { printf "  make %-12s %s\n", $$1, $$2 }' Makefile
	@echo "Variables, as in nccl-tests: MPI_HOME CUDA_HOME NCCL_HOME NVCC_GENCODE NAME_SUFFIX BUILDDIR DEBUG=1."
	@echo "MPI=openmpi or MPI=mpich: that one of several; MPI=0: none. With a BUILDDIR of its own, builds lie next to each other."
	@echo "Also: JOBS=N (parallel compilations), ARGS='-R mpi' (passed on to ctest), BUNDLE_NCCL=1."

deps:  ## Install what is missing to build and test (Debian, Ubuntu; elsewhere prints the list)
	@MPI_HOME='$(MPI_HOME)' MPI='$(mpi)' scripts/install-deps.sh

configure:
	@command -v cmake >/dev/null || { echo "cmake is missing: run \`make deps\` (scripts/install-deps.sh)" >&2; exit 1; }
	@mkdir -p '$(BUILDDIR)'
	@choices="$(choices)"; \
	if [ ! -f '$(BUILDDIR)/CMakeCache.txt' ] || [ "$$choices" != "$$(cat '$(BUILDDIR)/.choices' 2>/dev/null)" ]; then \
	  rm -f '$(BUILDDIR)/CMakeCache.txt' '$(BUILDDIR)/.choices'; \
	  if [ ! -f '$(BUILDDIR)/Makefile' ] && command -v ninja >/dev/null; then export CMAKE_GENERATOR=Ninja; fi; \
	  cmake -B '$(BUILDDIR)' $(choices) && printf '%s\n' "$$choices" >'$(BUILDDIR)/.choices'; \
	fi

build-all: configure
	@$(build_only)

build-benches: configure
	@$(build_only) --target benches

run: deps configure  ## Install what is missing, build all_reduce_perf, and run it on 4 ranks
	@$(build_only) --target all_reduce_perf
	@$(with_launcher) scripts/run-example.sh '$(BUILDDIR)/all_reduce_perf$(NAME_SUFFIX)'

test: test-deps build-all  ## Install what is missing, build, and run every test that this machine can run
	@ctest --test-dir '$(BUILDDIR)' -j 3 --output-on-failure --no-tests=error $(ARGS)

test-asan:  ## The unit, kernel and MPI tests under the address and undefined-behaviour sanitizers
	@$(MAKE) --no-print-directory test PRESET=asan BUILDDIR=build-asan ARGS="$(or $(ARGS),-R '^(asan_|unit|kernels_simt|mpi_)')"

test-tsan:  ## The unit tests of what runs in several threads under the thread sanitizer, without MPI
	@$(MAKE) --no-print-directory test-threads PRESET=tsan BUILDDIR=build-tsan

test-threads: test-deps configure
	@$(build_only) --target test_threads
	@ctest --test-dir '$(BUILDDIR)' --output-on-failure --no-tests=error -R '^threads$$' $(ARGS)

test-mpich:  ## With MPICH and without all that a build can do without: its tests on 1 and 2 ranks (build-bare/)
	@$(MAKE) --no-print-directory test-second-mpi MPI=mpich PRESET=bare BUILDDIR=build-bare

test-second-mpi: test-deps configure
	@$(build_only) --target test_mpi all_reduce_perf sendrecv_perf busbar
	@ctest --test-dir '$(BUILDDIR)' --output-on-failure --no-tests=error -R '^(mpi_[12]|e2e_failures|e2e_bare)$$' $(ARGS)

test-no-mpi:  ## Without MPI: all_reduce_perf over Gloo, and what refuses (build-no-mpi/)
	@$(MAKE) --no-print-directory test-alone MPI=0 PRESET=no-mpi BUILDDIR=build-no-mpi

test-alone: deps configure
	@$(build_only) --target all_reduce_perf busbar busbar_gloo
	@ctest --test-dir '$(BUILDDIR)' --output-on-failure --no-tests=error $(ARGS)

test-more: test-deps build-all  ## What CI has no time for: ends of runs 200 times; a real Prometheus; MPICH, every suite
	@$(with_launcher) BUSBAR_BUILD="$$(realpath '$(BUILDDIR)')" BUSBAR_MORE=1 \
	  sh -ec 'scripts/fetch-nccl-wheels.sh || true; bash test/e2e/nccl_on_fakes_test.sh "$$BUSBAR_BUILD"; \
          for test in $$(grep -l "suite\.in_more\|suite\.MORE" test/*/*_test.py); do python3 "$$test"; done; \
          "$$BUSBAR_BUILD/test/test_unit" "[field]"; \
          for place in local hosts slurm kube; do scripts/triage/run_triage.py "$$BUSBAR_BUILD" --place $$place; done'
	@$(MAKE) --no-print-directory test MPI=mpich PRESET=mpich BUILDDIR=build-mpich ARGS="$(or $(ARGS),-R '^(mpi|e2e|faults)_')"

bench: deps build-all build-benches  ## Measure the suite itself: data kernels, loop, memory (ARGS='loop memory': only those)
	@$(with_launcher) scripts/run-bench.sh '$(BUILDDIR)' $(ARGS)

experiments: deps build-all build-benches  ## Measure the statistics on this machine, half an hour (hours: ARGS=comparisons; ARGS=peers OSU=DIR IMB=DIR)
	@$(with_launcher) OSU='$(OSU)' IMB='$(IMB)' scripts/run-experiments.sh '$(BUILDDIR)' $(ARGS)

faults: test-deps all  ## Faults on virtual hosts, what the watchdog says: 40 minutes (ARGS='--only stop'; --acceptance)
	@$(with_launcher) python3 scripts/faults/run_faults.py '$(BUILDDIR)' $(ARGS)

soak: test-deps all  ## No false alarm in 50 runs on busy cores, each fault three times, all made-up logs: two hours
	@$(with_launcher) python3 scripts/faults/run_faults.py '$(BUILDDIR)' --soak 50 --repeat 3 $(ARGS)
	@BUSBAR_NAME_SUFFIX='$(NAME_SUFFIX)' BUSBAR_BUILD='$(BUILDDIR)' python3 test/e2e/synthetic_logs_test.py --full

install: all  ## Install below PREFIX (/usr/local), DESTDIR before it
	@$(build_only) --target manual
	@cmake --install '$(BUILDDIR)' --prefix '$(or $(PREFIX),/usr/local)'

deb: deb-deps all  ## Make a Debian package of this build (CPack)
	@$(build_only) --target manual
	@cd '$(BUILDDIR)' && cpack

dist: deps configure  ## Make a tarball of the sources, which builds without git and without a network
	@packaging/dist.sh '$(BUILDDIR)'

mutants: test-deps configure  ## Break the pure rooms a little, 200 times, and see whether the tests notice: an hour
	@scripts/mutants.py '$(BUILDDIR)/mutants' $(ARGS)

samples: deps all  ## Compare the samples of output in README and docs with what is printed now: three minutes
	@scripts/samples.py '$(BUILDDIR)' $(ARGS)

docs: docs-deps  ## Render the manual into build/docs/index.html (mkdocs)
	@mkdocs build --quiet --site-dir "$$(realpath -m '$(BUILDDIR)')/docs"

test-deps lint-deps bundle-deps docs-deps deb-deps:
	@MPI_HOME='$(MPI_HOME)' MPI='$(mpi)' scripts/install-deps.sh --$(@:-deps=)

lint: lint-deps  ## Formatting, clang-tidy, rooms, headers, scripts (ARGS='rooms': only that)
	@$(MAKE) --no-print-directory configure PRESET=lint BUILDDIR=build-lint
	@scripts/lint/lint-all.sh build-lint $(ARGS)

format:  ## Apply clang-format to every source
	@git ls-files -co --exclude-standard '*.h' '*.cpp' '*.cu' '*.cuh' | xargs clang-format -i

bundle: bundle-deps configure  ## Make a relocatable tarball for machines without package access
	@$(build_only) --target bundled
	@BUNDLE_NCCL='$(BUNDLE_NCCL)' NCCL_HOME='$(NCCL_HOME)' scripts/bundle.sh '$(BUILDDIR)'

release: dist deb bundle  ## Make all parts of a release with their checksums, in build/release/
	@$(MAKE) --no-print-directory bundle MPI=0 BUILDDIR='$(BUILDDIR)/no-mpi'
	@packaging/release.sh '$(BUILDDIR)' '$(BUILDDIR)/no-mpi'

clean:  ## Remove the build directories
	@rm -rf '$(BUILDDIR)' build-asan build-tsan build-mpich build-cpu build-bare build-no-mpi build-lint
