# Two commands for a newcomer, on a bare Debian or Ubuntu with Python 3.11 or newer:
#
#   make demo    pack a folder, mount it, read it with OpenCV and NumPy
#   make test    tests whether this clone works on this machine; takes minutes
#
# and one for developers:
#
#   make check   everything else that must hold: sanitizers, clouds, clusters, packages
#
# They install what is missing: system packages through .ci/system-packages, all else into
# .venv. A second run does only what has changed. PYTHON=python3.12 names another interpreter
# (`make clean` first).

PYTHON ?= python3
export PYTHON

# Containers often set this. Then each process of pytest compiles all tests again, and each command
# that a test starts compiles ffrfs: minutes of CPU.
unexport PYTHONDONTWRITEBYTECODE

VENV := .venv
BIN := $(VENV)/bin

native := $(shell find native -name '*.cc' -o -name '*.h') native/CMakeLists.txt
print_requirements := import tomllib; \
    file = tomllib.load(open("pyproject.toml", "rb")); project = file["project"]; \
    print(*file["build-system"]["requires"], *project["dependencies"], sep="\n")
print_extra := import sys, tomllib; file = tomllib.load(open("pyproject.toml", "rb")); \
    print(*file["project"]["optional-dependencies"][sys.argv[1]])
# pip would compile 20,000 modules, of which the tests import a third.
pip_install := python -m pip install --quiet --no-compile
# install_extra NAME: installs the packages of an extra of pyproject.toml.
install_extra = $(BIN)/$(pip_install) $$($(BIN)/python -c '$(print_extra)' $(1))
print_site := import sysconfig; print(sysconfig.get_path("purelib"))
# only_room: the native tests that ROOM=ffrfs/remote needs, as a regular expression.
only_room = $$($(BIN)/python -m tests.rooms_above '$(ROOM)')

# Tests of mounts wait about as much as they work. With more workers, Python takes seconds to start.
workers := -n $$(($$(nproc) * 2)) --dist loadgroup

# The first report ends the program. A child of fork() may start threads, as ours do:
# ThreadSanitizer does not check such a child, and by default kills it.
sanitizer_options := UBSAN_OPTIONS=print_stacktrace=1 \
    TSAN_OPTIONS='halt_on_error=1:die_after_fork=0:suppressions=$(CURDIR)/tests/native/tsan.supp'

.PHONY: help docs demo demo-train test test-native build-native load-test check check-native \
    check-memory check-threads check-mounts build-memory build-threads check-lint \
    check-packages build-roots check-python check-programs check-beam soak chaos fuzz manual build \
    bench golden-tf wheel deb test-packages clean packages
.DELETE_ON_ERROR:
.NOTPARALLEL:

help:
	@echo 'make demo    pack a small folder, mount it, read it, compare'
	@echo 'make demo-train   train a small network on a mount, stop it, go on'
	@echo 'make test    whether this clone works on this machine: the core, mounts, every room'
	@echo 'make check   all that must hold: sanitizers, fuzzers, lint, torch, loaders, clouds, clusters, packages'
	@echo '             check-native, check-lint, check-torch, check-clouds ...: a part; ROOM=ffrfs/remote:'
	@echo '             what that room and those above it need'
	@echo 'make load-test   make test, five times, beside busy loops'
	@echo 'make chaos   mounts whose processes die at random, and whose storage fails; ten minutes'
	@echo 'make soak    a thousand mounts, 64 readers at once, turmoil, packs that change; two hours'
	@echo 'make manual  manual pages and completions, out of the argument parser'
	@echo 'make docs    build/docs: the documents and the Python API as a site'
	@echo 'make build   set up .venv, with ffrfs in it as an editable install'
	@echo 'make bench   speed and memory beside squashfuse, EROFS and others (BENCH=--quick for a try)'
	@echo 'make fuzz    damaged indices, headers, records and Examples by the million'
	@echo 'make wheel   dist/: wheels of ffrfs and of all it needs, for Debian 12 and 13; as root'
	@echo 'make deb     dist/: a package of ffrfs for Debian 12, and one for 13; as root'
	@echo 'make test-packages   install and use what is in dist/ in bare roots of Debian; as root'
	@echo 'make clean   remove .venv and everything built'

demo: build $(VENV)/demo
	@$(BIN)/python examples/demo.py

demo-train: build $(VENV)/demo $(VENV)/torch
	@$(BIN)/python examples/train.py

# Runs the part "test" of tests/parts.py and, beside it, the core's own tests in a plain build: pip
# waits for the network, and mounts wait more than they work. One process compiles the tests first:
# otherwise each of pytest's processes would.
test: build
	@.ci/system-packages test
	@mkdir -p build/test-native; \
	{ $(call build_native,test-native,-DFFRFS_TESTS=ON) && $(call run_native,test-native,.); } \
	    >build/test-native/log 2>&1 & native=$$!; \
	$(MAKE) --no-print-directory $(VENV)/test && echo '== tests' && { \
	    $(BIN)/python -m pytest --quiet --collect-only --part test >/dev/null 2>&1; \
	    $(BIN)/python -m pytest --quiet $(workers) --part test; }; status=$$?; \
	wait $$native || { cat build/test-native/log; status=1; }; \
	echo "native tests: $$(grep 'tests passed' build/test-native/log)"; exit $$status

load-test: test
	@$(BIN)/python -m tests.beside_load 5 $(MAKE) --no-print-directory test

test-native: build-native
	@$(call run_native,test-native,.)

build-native: build
	@.ci/system-packages test
	@echo '== native tests'
	@$(call build_native,test-native,-DFFRFS_TESTS=ON)

# Within $(call), a plain comma would end an argument.
comma := ,
# build_native NAME,OPTIONS and run_native NAME,EXPRESSION work in build/NAME. A warning is an error
# in CI, where the compilers are always the same.
build_native = $(BIN)/cmake -S native -B build/$(1) --log-level=WARNING -G Ninja \
        $(if $(CI),-DCMAKE_COMPILE_WARNING_AS_ERROR=ON) \
        '-DCMAKE_MAKE_PROGRAM=$(CURDIR)/$(BIN)/ninja' $(2) && $(BIN)/cmake --build build/$(1)
run_native = $(sanitizer_options) $(BIN)/ctest --test-dir build/$(1) --parallel $$(nproc) \
        --tests-regex $(2) --output-on-failure --no-tests=error --timeout 900 --progress

# All that does not fit into `make test`. A part that cannot be installed says why, and the others
# go on. ROOM=ffrfs/remote runs the checks of that room and of the rooms above it.
ROOM :=
check: build $(VENV)/test
	@.ci/check '$(ROOM)'

# One build with clang serves the sanitizers and the fuzzers, another one ThreadSanitizer. GCC would
# take one and a half times as long.
check-native: check-memory check-threads check-mounts

check-memory: build-memory
	@$(call run_native,check-memory,$(only_room))
	@$(BIN)/python -m tests.fuzz.run build/check-memory

build-memory: build
	@.ci/system-packages test fuzz
	@echo '== the core under the address and undefined-behaviour sanitizers, and the fuzzers'
	@$(call build_native,check-memory,-DFFRFS_TESTS=ON -DFFRFS_FUZZ=ON \
	    -DCMAKE_CXX_COMPILER=clang++ -DFFRFS_SANITIZE=address$(comma)undefined)

check-threads: build-threads
	@$(call run_native,check-threads,$(only_room))

# The tests that have threads.
build-threads: SUITE := batch_parser_test|budget_test|cache_limit_test|checked_range_test|counters_test|coverage_test|demand_reader_test|event_turns_test|subtree_reads_test|hint_server_test|hostile_fetcher_test|far_requests_test|index_map_test|interrupts_test|io_test|journal_test|mapped_tree_test|open_packs_test|operations_test|prefetch|read_around_test|region_pass_test|remote_file_test|remote_volume_test|seen_checksums_test|request_log_test|slow_index_test|source_test|tfrecord_test|union_tree_test|unit_table_test|uring_queue_test|scrub_test|volume_test|^writer_test
# The other cases of these tests have one thread, and check-memory runs them.
build-threads: THREADED_CASES := batch_parser_test|index_map_test|mapped_tree_test|tfrecord_test|union_tree_test
build-threads: build
	@.ci/system-packages test fuzz
	@echo '== what is threaded, under ThreadSanitizer'
	@$(call build_native,check-threads,-DFFRFS_TESTS=ON \
	    -DCMAKE_CXX_COMPILER=clang++ -DFFRFS_SANITIZE=thread '-DFFRFS_SUITE=$(SUITE)' \
	    '-DFFRFS_THREADED_CASES=$(THREADED_CASES)')

# Mounts whose workers were built with sanitizers: reads, listings, a stalled disk, beginning
# and end, many readers at once. A sanitizer's report and the worker's end are in the daemon's log,
# and either fails the test. Sanitizers change the use of memory, so larger_than_the_cache of
# test_read is left out. Of the tests that begin and end a mount, only those run in which the
# worker takes part.
sanitized_ends := signal_unmounts second_signal_ends_the_daemon_at_once \
        system_umount_ends_the_daemon_too \
        busy_mount_is_detached_and_served_until_its_file_closes \
        aborted_connection_is_a_failure_unless_unmounted \
        killed_daemon_gives_errors_and_umount_cleans_up \
        mount_point_is_reusable_while_the_old_mount_lingers
sanitized_mounts := $(addprefix tests/mount/,engines/test_read.py engines/test_listing.py \
        engines/test_stalled_disk.py engines/test_tfrecord_reads.py \
        engines/test_prefetch_reads.py engines/test_hostile_index.py \
        $(addprefix daemon/test_lifecycle.py::test_,$(sanitized_ends))) tests/soak/test_load.py
check-mounts: build-memory build-threads $(VENV)/test
	@for build in check-threads check-memory; do \
	    echo "== mounts served by the worker of $$build"; \
	    FFRFS_WORKER='$(CURDIR)/build'/$$build/ffrfs-worker $(sanitizer_options) \
	        $(BIN)/python -m pytest --quiet $(workers) $(sanitized_mounts) \
	        -k '(native or uring) and not larger_than_the_cache' || exit 1; \
	done

# PARTS of tests/parts.py, in one run, but not the programs: they drop the whole machine's caches,
# and other tests count the kernel's requests while it has everything cached.
PARTS :=
check-python: $(VENV)/test
	@echo '== tests: $(PARTS)'
	@$(BIN)/python -m pytest --quiet $(workers) --part '$(PARTS)' --room '$(ROOM)'

check-programs: $(VENV)/test $(VENV)/programs
	@echo '== programs'
	@$(BIN)/python -m pytest --quiet -n 2 --dist loadgroup --part programs

# With FFRFS_SOAK, tests that take seconds in `make check` take minutes. -rP shows the figures, and
# the seed of the random acts, which FFRFS_SOAK_SEED repeats.
soak: build $(VENV)/test
	@FFRFS_SOAK=1 $(BIN)/python -m pytest -rP tests/soak tests/hostile

# Mounts whose processes are killed, stopped and replaced at random, and whose storage fails, for ten
# minutes altogether.
CHAOS_S ?= 600
chaos: build $(VENV)/test $(VENV)/torch
	@FFRFS_CHAOS_S=$(CHAOS_S) $(BIN)/python -m pytest -rP tests/soak/test_chaos.py

# libFuzzer runs for MINUTES, from its earlier findings on. Then come two million pieces of random
# damage (SEEDS=N for another number): some 25 minutes.
MINUTES ?= 10
SEEDS ?= 2000000
fuzz: build-memory
	@$(BIN)/python -m tests.fuzz.run build/check-memory --minutes $(MINUTES)
	@FFRFS_FUZZ_SEEDS=$(SEEDS) $(call run_native,check-memory,'pickle_hostile_test|tfrecord_hostile_test|example_test|example_folder_hostile_test|batch_parser_test')

# litdata requires torchvision, whose build for CUDA does not load beside our torch; Energon
# requires s3fs, which requires another botocore than boto3 does. Both run without these.
install_alone = $(BIN)/$(pip_install) --no-deps 'litdata>=0.2.76' \
    'megatron-energon>=7.4.1'

# universal_pathlib's own tests of paths, which its wheel does not have.
fetch_upath_tests = mkdir -p build/upath && $(BIN)/python -m pip download --quiet --no-deps \
    --no-binary :all: --dest build/upath "universal_pathlib==$$($(BIN)/python -c 'import upath; \
    print(upath.__version__)')" && \
    for file in build/upath/*.tar.gz; do tar -xzf "$$file" -C build/upath; done

# The packages for demo, test and the parts of check. The demo needs few of the tests' packages.
$(VENV)/demo $(VENV)/test $(addprefix $(VENV)/,docs lint clouds clusters loaders programs view): $(VENV)/%: pyproject.toml | $(VENV)/installed
	@.ci/system-packages build $(filter test clusters view,$*)
	@echo '== Python packages for make $*'
	@$(call install_extra,$(if $(filter demo test docs,$*),,check-)$*)
	@$(if $(filter loaders,$*),$(install_alone) && $(fetch_upath_tests))
	@touch $@

# For ffrfs.torch and mypy. Pinned to a version that is known to be small at its source: the newest
# may bring gigabytes of CUDA.
$(VENV)/torch: | $(VENV)/installed
	@echo '== torch'
	@$(BIN)/python -c 'import torch' 2>/dev/null || \
	    $(BIN)/$(pip_install) torch==2.13.0
	@touch $@

$(VENV)/service: | $(VENV)/installed
	@.ci/system-packages build service
	@touch $@

$(addprefix $(VENV)/,house transports long engines): | $(VENV)/installed
	@touch $@

$(VENV)/lint: | $(VENV)/torch $(VENV)/clusters $(VENV)/loaders $(VENV)/docs
$(VENV)/loaders: | $(VENV)/torch
$(VENV)/clouds: | build/azurite/made

# Azure's emulator; node is that of .venv. npm says why it fails at the end of a long log.
build/azurite/made: | $(VENV)/installed
	@echo '== Azurite, for tests of az:// (a minute)'
	@mkdir -p $(@D)
	@$(call install_extra,check-npm)
	@PATH='$(CURDIR)/$(BIN)':$$PATH npm install --no-audit --no-fund --prefix $(@D) azurite@3.37.0 \
	        >$(@D)/log 2>&1 || { grep -m 5 'npm error' $(@D)/log >&2; \
	    echo 'make: Azurite is not installed (npm, above; the whole is in $(@D)/log)' >&2; exit 1; }
	@touch $@

check-lint: $(VENV)/test $(VENV)/lint
	@echo '== ruff, mypy, documents'
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@git ls-files '*.cc' '*.h' | xargs $(BIN)/clang-format --dry-run --Werror
	@$(BIN)/mypy
	@$(BIN)/python -m pytest --quiet --part lint

# check-torch, check-clouds ...: one part of the Python tests.
check-%: $(VENV)/test $(VENV)/%
	@$(MAKE) --no-print-directory check-python PARTS=$*

# Apache Beam requires older packages than the others do (protobuf, pyarrow, Pillow): they go into
# an environment of its own below build/, which uses .venv for all others.
check-beam: $(VENV)/test build/beam/made
	@echo '== tests: beam'
	@build/beam/bin/python -m pytest --quiet $(workers) --part beam --room '$(ROOM)'

build/beam/made: pyproject.toml | $(VENV)/installed
	@echo '== Apache Beam, in build/beam'
	@$(PYTHON) -m venv --clear --without-pip build/beam
	@PIP_PYTHON=build/beam/bin/python \
	    $(BIN)/$(pip_install) $$($(BIN)/python -c '$(print_extra)' beam)
	@echo "import site; site.addsitedir('$$($(BIN)/python -c '$(print_site)')')" \
	    >$$(build/beam/bin/python -c '$(print_site)')/others.pth
	@touch $@

# A site of the documents and the Python API (mkdocs.yml). Dead links are errors.
docs: $(VENV)/docs
	@$(BIN)/mkdocs build

# Writes into ffrfs/service. A test compares these files with the parser.
manual: build
	@$(BIN)/python docs/write_manual.py

# ratarmount, one of the contenders, goes into an environment of its own below build/.
bench: build $(VENV)/test $(VENV)/torch
	@.ci/system-packages bench
	@$(call install_extra,bench)
	@$(BIN)/python -m benchmarks $(BENCH)

# TensorFlow goes into an environment of its own below build/, which is kept. Its log is shown
# only if the recording fails.
golden-tf: build/tensorflow/made
	@build/tensorflow/bin/python tests/golden_tf/record.py 2>build/tensorflow/log \
	    || { cat build/tensorflow/log >&2; exit 1; }

build/tensorflow/made:
	@$(PYTHON) -m venv build/tensorflow
	@build/tensorflow/bin/$(pip_install) 'tensorflow-cpu==2.21.*'
	@touch $@

# These run in roots of Debian, which are kept below build/packages; see docs/installing.md.
wheel:
	@.ci/system-packages build packages
	@.ci/packages/wheel

deb: wheel
	@.ci/packages/deb

# Quick packages for one release (.ci/packages/releases); `make test-packages` tests all releases.
check-packages build-roots: export RELEASES ?= trixie:3.13
check-packages: export QUICK := 1
check-packages: test-packages

# `make check` runs this beside computing parts, as it waits for Debian's archive and for the disk.
build-roots:
	@for release in $$RELEASES; do .ci/packages/make-root $${release%:*} build || exit; done

test-packages: deb
	@.ci/packages/test

build: $(VENV)/installed

# Editable: Python sources are used as they are in the checkout; the native module is
# built again when its sources change, which is quick because build/ is kept.
$(VENV)/installed: $(VENV)/requirements.txt $(native)
	@echo '== building ffrfs and installing it into $(VENV) (a minute or two)'
	@$(BIN)/$(pip_install) --no-build-isolation --no-deps --editable .
	@touch $@

# Dependencies are installed apart from ffrfs: without isolation, our tools would build them.
$(VENV)/requirements.txt: pyproject.toml | packages
	@echo '== making $(VENV): everything from PyPI goes in there'
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV)
	@$(BIN)/$(pip_install) --upgrade pip # Python 3.11 has one that takes twice as long
	@$(BIN)/python -c '$(print_requirements)' >$@
	@$(BIN)/$(pip_install) -r $@ cmake ninja

packages:
	@.ci/system-packages build

clean:
	rm -rf $(VENV) build dist .pytest_cache .hypothesis .mypy_cache .ruff_cache
