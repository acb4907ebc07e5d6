# infer: PGXS build of the extension (infer.so) and of the engine beside it.
#
#	make && make install			with PG_CONFIG=… for another server than pg_config's own
#	make DEVELOPER=1				with settings that tests of infer itself want
#	make CUDA=1						also builds infer_cuda.so (needs nvcc); never probed in silence
#	make installcheck				pg_regress against a running server that has infer preloaded
#	make check-unit					the tests that need no server
#
# Objects go to build/: the engine's once, the extension's once per server version, so that
# one tree serves several servers.

PG_CONFIG ?= pg_config
CUDA ?= 0
DEVELOPER ?= 0

# Not VERSION: that is PostgreSQL's own in the makefiles included below.
INFER_VERSION := $(shell sed -n "s/^default_version *= *'\(.*\)'/\1/p" infer.control)
BUILD ?= build
# One spelling, whoever calls: the recorded dependencies name their objects by it.
override BUILD := $(abspath $(BUILD))

EXTENSION = infer
DATA_built = $(BUILD)/sql/infer--$(INFER_VERSION).sql
DATA = $(wildcard sql/infer--*--*.sql)
DOCS =

REGRESS_FILES = $(sort $(wildcard test/sql/*.sql))
REGRESS = $(patsubst test/sql/%.sql,%,$(REGRESS_FILES))
REGRESS_OPTS = --inputdir=test --outputdir=$(BUILD)/regress --load-extension=infer

PGXS := $(shell $(PG_CONFIG) --pgxs)
ifeq ($(PGXS),)
$(error $(PG_CONFIG) not found: install the server's development package or set PG_CONFIG)
endif
include $(PGXS)

PG_MAJOR := $(MAJORVERSION)

# ---- the extension: loaded into PostgreSQL, links libc and libm only ----

EXT_BUILD = $(BUILD)/pg$(PG_MAJOR)$(if $(filter 1,$(DEVELOPER)),-developer)
EXT_SOURCES = $(wildcard src/extension/*.c src/extension/*/*.c src/extension/*/*/*.c) src/protocol/protocol.c
EXT_OBJECTS = $(EXT_SOURCES:src/%.c=$(EXT_BUILD)/%.o)
EXT_MODULE = $(EXT_BUILD)/infer.so

# The servers were built by other compilers: keep their ABI flags, drop warnings this one
# does not know.
EXT_CFLAGS = $(INFER_WARNINGS) $(filter-out -Wshadow=% -Wimplicit-fallthrough=% -Wcast-function-type -Wno-% -Wmissing-variable-declarations,$(CFLAGS)) $(CFLAGS_SL) -fvisibility=hidden -std=gnu11 $(EXT_EXPORT)
# 15 leaves PGDLLEXPORT empty; later versions define it like this
EXT_EXPORT = -D'PGDLLEXPORT=__attribute__((visibility("default")))'
# settings that only tests of infer itself want: infer.debug_batch_all
EXT_DEVELOPER = $(if $(filter 1,$(DEVELOPER)),-DINFER_DEVELOPER)
INFER_WARNINGS = -Wall -Wextra -Wno-unused-parameter -Wno-sign-compare -Wno-missing-field-initializers $(WERROR)

$(EXT_BUILD)/%.o: src/%.c infer.control
	@mkdir -p $(@D)
	$(CC) $(EXT_CFLAGS) $(EXT_DEVELOPER) $(CPPFLAGS) -DINFER_VERSION='"$(INFER_VERSION)"' -MMD -MP -c -o $@ $<

$(EXT_MODULE): $(EXT_OBJECTS)
	$(CC) -shared -o $@ $^ $(filter-out -Wl$(comma)--export-dynamic,$(LDFLAGS)) -lm

comma := ,
empty :=

# ---- the engine: its own process, knows no PostgreSQL header ----

ENGINE_CC ?= $(CC)
ENGINE_BUILD = $(BUILD)/engine
ENGINE_OPT ?= -O2 -g
ENGINE_CFLAGS = -std=gnu11 $(ENGINE_OPT) -ffp-contract=off -fno-math-errno -fno-strict-aliasing -fstack-protector-strong \
	-Wall -Wextra -Wno-unused-parameter -Wno-missing-field-initializers $(WERROR) -pthread -D_GNU_SOURCE \
	-DINFER_VERSION='"$(INFER_VERSION)"' $(ENGINE_EXTRA)
ENGINE_LIBS = -ljansson -lcrypto -ldl -lm -pthread
ENGINE_SOURCES = $(wildcard src/engine/*.c src/engine/*/*.c src/engine/*/*/*.c src/engine/*/*/*/*.c) src/protocol/protocol.c
ENGINE_ARCH ?= $(shell $(ENGINE_CC) -dumpmachine | cut -d- -f1)
ifneq ($(ENGINE_ARCH),x86_64)
ENGINE_SOURCES := $(filter-out %_avx2.c %_avx512.c %_amx.c,$(ENGINE_SOURCES))
endif
ENGINE_OBJECTS = $(ENGINE_SOURCES:src/%.c=$(ENGINE_BUILD)/%.o)
ENGINE_LIBRARY = $(ENGINE_BUILD)/libengine.a
ENGINE = $(ENGINE_BUILD)/infer-engine

# Only a file of an instruction set's own gets its flags (engine-wide flags stay baseline).
%_avx2.o: ISA_CFLAGS = -mavx2 -mfma
%plain_avx2.o: ISA_CFLAGS = -mavx2 -mfma -mf16c
%vnni_avx2.o: ISA_CFLAGS = -mavx2 -mfma -mavxvnni
AVX512_CFLAGS = -mavx512f -mavx512bw -mavx512dq -mavx512vl -mfma -mprefer-vector-width=512
%_avx512.o: ISA_CFLAGS = $(AVX512_CFLAGS)
%vnni_avx512.o: ISA_CFLAGS = $(AVX512_CFLAGS) -mavx512vnni
%bf16_avx512.o: ISA_CFLAGS = $(AVX512_CFLAGS) -mavx512bf16
# what follows the tiles are plain loops: -O3 makes vectors of them
%_amx.o: ISA_CFLAGS = $(AVX512_CFLAGS) -mamx-tile -mamx-bf16 -mamx-int8 -O3

$(ENGINE_BUILD)/%.o: src/%.c infer.control
	@mkdir -p $(@D)
	$(ENGINE_CC) $(ENGINE_CFLAGS) $(ISA_CFLAGS) -MMD -MP -c -o $@ $<

$(ENGINE_LIBRARY): $(filter-out %/engine/main.o,$(ENGINE_OBJECTS))
	@rm -f $@
	$(AR) rcs $@ $^

$(ENGINE): $(ENGINE_BUILD)/engine/main.o $(ENGINE_LIBRARY)
	$(ENGINE_CC) $(ENGINE_OPT) $(ENGINE_EXTRA) -o $@ $^ $(ENGINE_LIBS)

# ---- the CUDA device: a library that the engine opens at run time, where there is one ----
#
# CUDA_ARCHS: the SASS that is made; PTX of the last one serves later cards.  `make release` makes all that the toolkit knows.

NVCC ?= nvcc
CUDA_ARCHS ?= 80
CUDA_BUILD = $(ENGINE_BUILD)/nvidia
CUDA_SOURCES = $(wildcard cuda/*.cu cuda/*/*.cu)
CUDA_HEADERS = $(wildcard cuda/*.h cuda/*/*.h) src/engine/device.h src/engine/status.h src/protocol/errors.h
CUDA_OBJECTS = $(CUDA_SOURCES:cuda/%.cu=$(CUDA_BUILD)/%.o) $(CUDA_BUILD)/status.o
CUDA_MODULE = $(ENGINE_BUILD)/infer_cuda.so
CUDA_LAST = $(lastword $(CUDA_ARCHS))
CUDA_GENCODE = $(foreach arch,$(CUDA_ARCHS),-gencode arch=compute_$(arch),code=sm_$(arch)) \
	-gencode arch=compute_$(CUDA_LAST),code=compute_$(CUDA_LAST)
CUDA_DEFINES = -DINFER_VERSION='"$(INFER_VERSION)"'
CUDA_WARNINGS = -Wall -Wextra -Wno-unused-parameter -Wno-missing-field-initializers
NVCC_FLAGS = -std=c++17 -O3 -fmad=false $(CUDA_GENCODE) -Icuda/platform $(CUDA_DEFINES) -Wno-deprecated-gpu-targets \
	$(if $(WERROR),-Werror all-warnings) \
	-Xcompiler=-fPIC,-fvisibility=hidden,-ffp-contract=off,-pthread$(subst $(empty) $(empty),,$(foreach w,$(CUDA_WARNINGS),$(comma)$(w)))

$(CUDA_BUILD)/%.o: cuda/%.cu $(CUDA_HEADERS) infer.control
	@mkdir -p $(@D)
	$(NVCC) $(NVCC_FLAGS) -c -o $@ $<

$(CUDA_BUILD)/status.o: src/engine/status.c src/engine/status.h
	@mkdir -p $(@D)
	$(ENGINE_CC) $(ENGINE_CFLAGS) -fPIC -fvisibility=hidden -c -o $@ $<

$(CUDA_MODULE): $(CUDA_OBJECTS)
	$(NVCC) -shared -cudart static $(CUDA_GENCODE) -Wno-deprecated-gpu-targets -o $@ $^ -ldl -lpthread

# The same sources for the CPU, over an emulation of CUDA: what tests run.
ENGINE_CXX ?= $(if $(findstring clang,$(ENGINE_CC)),clang++,$(patsubst %gcc,%g++,$(patsubst cc,g++,$(ENGINE_CC))))
EMULATION_BUILD = $(ENGINE_BUILD)/emulation
EMULATION_SOURCES = $(wildcard test/kernels/emulation/*.cc)
EMULATION_OBJECTS = $(CUDA_SOURCES:cuda/%.cu=$(EMULATION_BUILD)/%.o) $(EMULATION_SOURCES:test/kernels/emulation/%.cc=$(EMULATION_BUILD)/runtime/%.o) \
	$(EMULATION_BUILD)/status.o
EMULATION_MODULE = $(EMULATION_BUILD)/infer_cuda.so
EMULATION_CXXFLAGS = -std=gnu++17 $(ENGINE_OPT) -ffp-contract=off -fno-strict-aliasing -fPIC -fvisibility=hidden -pthread -D_GNU_SOURCE \
	$(CUDA_WARNINGS) -Wno-unknown-pragmas $(WERROR) -Itest/kernels/emulation $(CUDA_DEFINES) $(ENGINE_EXTRA)

$(EMULATION_BUILD)/%.o: cuda/%.cu infer.control
	@mkdir -p $(@D)
	$(ENGINE_CXX) $(EMULATION_CXXFLAGS) -MMD -MP -x c++ -c -o $@ $<

$(EMULATION_BUILD)/runtime/%.o: test/kernels/emulation/%.cc
	@mkdir -p $(@D)
	$(ENGINE_CXX) $(EMULATION_CXXFLAGS) -MMD -MP -c -o $@ $<

$(EMULATION_BUILD)/status.o: src/engine/status.c src/engine/status.h
	@mkdir -p $(@D)
	$(ENGINE_CC) $(ENGINE_CFLAGS) -fPIC -fvisibility=hidden -c -o $@ $<

$(EMULATION_MODULE): $(EMULATION_OBJECTS)
	$(ENGINE_CXX) -shared $(ENGINE_OPT) $(ENGINE_EXTRA) -o $@ $^ -ldl -lm -pthread

cuda: $(CUDA_MODULE)
emulation: $(EMULATION_MODULE)

.PHONY: cuda emulation

# ---- tests without a server: one program per file, linked with the engine ----

UNIT_SOURCES = $(wildcard test/unit/*.c test/kernels/*.c test/conformance/*.c)
UNIT_PROGRAMS = $(UNIT_SOURCES:test/%.c=$(ENGINE_BUILD)/test/%)
FUZZ_SOURCES = $(wildcard test/fuzz/*.c)
BENCH_SOURCES = $(wildcard bench/*.c)
BENCH_PROGRAMS = $(BENCH_SOURCES:bench/%.c=$(ENGINE_BUILD)/bench/%)

$(ENGINE_BUILD)/test/%: test/%.c $(ENGINE_LIBRARY)
	@mkdir -p $(@D)
	$(ENGINE_CC) $(ENGINE_CFLAGS) -Isrc -Itest -MMD -MP -o $@ $< $(ENGINE_LIBRARY) $(ENGINE_LIBS)

$(ENGINE_BUILD)/bench/%: bench/%.c $(ENGINE_LIBRARY)
	@mkdir -p $(@D)
	$(ENGINE_CC) $(ENGINE_CFLAGS) -Isrc -Ibench -MMD -MP -o $@ $< $(ENGINE_LIBRARY) $(ENGINE_LIBS) $(BENCH_LIBS)

# compared with oneDNN where that is installed
$(ENGINE_BUILD)/bench/encoder_products: BENCH_LIBS = $(if $(wildcard /usr/include/dnnl.h),-ldnnl)

# ---- fuzzers: libFuzzer with AddressSanitizer, in a build of their own ----

FUZZ_SANITIZE = -fsanitize=address,undefined -fno-sanitize-recover=undefined
FUZZ_PROGRAMS = $(FUZZ_SOURCES:test/%.c=$(ENGINE_BUILD)/test/%)

$(ENGINE_BUILD)/test/fuzz/%: test/fuzz/%.c $(ENGINE_LIBRARY)
	@mkdir -p $(@D)
	$(ENGINE_CC) $(ENGINE_CFLAGS) -Isrc -Itest -fsanitize=fuzzer -MMD -MP -o $@ $< $(ENGINE_LIBRARY) $(ENGINE_LIBS)

fuzz:
	$(MAKE) BUILD=$(BUILD)/fuzz ENGINE_CC=clang ENGINE_OPT="-O1 -g" \
		ENGINE_EXTRA="-fsanitize=fuzzer-no-link $(FUZZ_SANITIZE)" fuzz-programs

fuzz-programs: $(FUZZ_PROGRAMS)

# ---- every object and nothing linked: for cross-compilers ----

objects: $(EXT_OBJECTS) $(ENGINE_OBJECTS)

.PHONY: fuzz fuzz-programs objects
.PHONY: engine extension unit bench-programs check-unit install-infer uninstall-infer clean-build
engine: $(ENGINE)
extension: $(EXT_MODULE)
unit: $(UNIT_PROGRAMS) $(EMULATION_MODULE)

check-unit: unit
	@for program in $(filter-out $(ENGINE_BUILD)/test/conformance/%,$(UNIT_PROGRAMS)); do \
		echo "# $$program"; $$program || exit 1; \
	done

bench-programs: $(BENCH_PROGRAMS)

# ---- the install script, of its parts, carries the version of infer.control ----

$(BUILD)/sql/infer--$(INFER_VERSION).sql: sql/infer.sql sql/jobs.sql sql/fresh.sql
	@mkdir -p $(@D)
	cat $^ > $@

# ---- PGXS hooks ----

all: $(EXT_MODULE) $(ENGINE) $(if $(filter 1,$(CUDA)),$(CUDA_MODULE))

install: install-infer

install-infer: $(EXT_MODULE) $(ENGINE) $(if $(filter 1,$(CUDA)),$(CUDA_MODULE))
	$(MKDIR_P) '$(DESTDIR)$(pkglibdir)' '$(DESTDIR)$(bindir)'
	$(INSTALL_SHLIB) $(EXT_MODULE) '$(DESTDIR)$(pkglibdir)/infer.so'
	$(INSTALL_PROGRAM) $(ENGINE) '$(DESTDIR)$(bindir)/infer-engine'
	$(if $(filter 1,$(CUDA)),$(INSTALL_SHLIB) $(CUDA_MODULE) '$(DESTDIR)$(pkglibdir)/infer_cuda.so')

uninstall: uninstall-infer

uninstall-infer:
	rm -f '$(DESTDIR)$(pkglibdir)/infer.so' '$(DESTDIR)$(pkglibdir)/infer_cuda.so' '$(DESTDIR)$(bindir)/infer-engine'

clean: clean-build

clean-build:
	rm -rf $(BUILD)

installcheck: | $(BUILD)/regress

$(BUILD)/regress:
	@mkdir -p $@

-include $(EXT_OBJECTS:.o=.d) $(ENGINE_OBJECTS:.o=.d) $(EMULATION_OBJECTS:.o=.d) $(UNIT_PROGRAMS:=.d) $(FUZZ_PROGRAMS:=.d) $(BENCH_PROGRAMS:=.d)
