# The engine, its tests and benchmarks, its fuzzers, and the CUDA device: all that knows no PostgreSQL.
#
# Included by Makefile.  Where there is no PostgreSQL, it works alone:
#
#	make -f src/engine/engine.mk engine unit bench-programs cuda
#
# in the project's folder.

BUILD ?= build
override BUILD := $(abspath $(BUILD))
INFER_VERSION ?= $(shell sed -n "s/^default_version *= *'\(.*\)'/\1/p" infer.control)
comma ?= ,
empty :=

.PHONY: engine unit check-unit bench-programs fuzz fuzz-programs

engine: engine-program

# ---- the engine: its own process, knows no PostgreSQL header ----

ENGINE_CC ?= $(CC)
ENGINE_BUILD = $(BUILD)/engine
ENGINE_OPT ?= -O2 -g
ENGINE_CFLAGS = -std=gnu11 $(ENGINE_OPT) -ffp-contract=off -fno-math-errno -fno-strict-aliasing -fstack-protector-strong \
	-Wall -Wextra -Wno-unused-parameter -Wno-missing-field-initializers $(WERROR) -pthread -D_GNU_SOURCE \
	-DINFER_VERSION='"$(INFER_VERSION)"' $(ENGINE_EXTRA)
ENGINE_LIBS = -ljansson -lcrypto -ldl -lm -pthread
ENGINE_SOURCES = $(wildcard src/engine/*.c src/engine/*/*.c src/engine/*/*/*.c src/engine/*/*/*/*.c src/protocol/*.c)
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

include cuda/cuda.mk

# ---- tests without a server: one program per file, linked with the engine ----

UNIT_SOURCES = $(wildcard test/unit/*.c test/kernels/*.c test/conformance/*.c)
EMULATION_TESTS = $(wildcard test/kernels/*.cc)
UNIT_PROGRAMS = $(UNIT_SOURCES:test/%.c=$(ENGINE_BUILD)/test/%) $(EMULATION_TESTS:test/%.cc=$(ENGINE_BUILD)/test/%)
FUZZ_SOURCES = $(wildcard test/fuzz/*.c)
BENCH_SOURCES = $(wildcard bench/*.c)
BENCH_PROGRAMS = $(BENCH_SOURCES:bench/%.c=$(ENGINE_BUILD)/bench/%)

$(ENGINE_BUILD)/test/%: test/%.c $(ENGINE_LIBRARY)
	@mkdir -p $(@D)
	$(ENGINE_CC) $(ENGINE_CFLAGS) -Isrc -Itest -MMD -MP -o $@ $< $(ENGINE_LIBRARY) $(ENGINE_LIBS)

# Of the emulation of CUDA itself: with kernels of their own.
EMULATION_RUNTIME = $(EMULATION_SOURCES:test/kernels/emulation/%.cc=$(EMULATION_BUILD)/runtime/%.o)

$(ENGINE_BUILD)/test/kernels/%: test/kernels/%.cc $(EMULATION_RUNTIME)
	@mkdir -p $(@D)
	$(ENGINE_CXX) $(EMULATION_CXXFLAGS) -Itest -MMD -MP -o $@ $< $(EMULATION_RUNTIME) -ldl -lm -pthread

$(ENGINE_BUILD)/bench/%: bench/%.c $(ENGINE_LIBRARY)
	@mkdir -p $(@D)
	$(ENGINE_CC) $(ENGINE_CFLAGS) -Isrc -Itest -Ibench -MMD -MP -o $@ $< $(ENGINE_LIBRARY) $(ENGINE_LIBS) $(BENCH_LIBS)

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

# ---- what is asked for ----

.PHONY: engine-program
engine-program: $(ENGINE)
unit: $(UNIT_PROGRAMS) $(EMULATION_MODULE)

check-unit: unit
	@for program in $(filter-out $(ENGINE_BUILD)/test/conformance/%,$(UNIT_PROGRAMS)); do \
		echo "# $$program"; $$program || exit 1; \
	done

bench-programs: $(BENCH_PROGRAMS)

-include $(ENGINE_OBJECTS:.o=.d) $(EMULATION_OBJECTS:.o=.d) $(UNIT_PROGRAMS:=.d) $(FUZZ_PROGRAMS:=.d) $(BENCH_PROGRAMS:=.d)
