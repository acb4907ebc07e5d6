# infer: PGXS build of the extension (infer.so) and of the engine beside it.
#
#	make && make install			with PG_CONFIG=… for another server than pg_config's own
#	make DEVELOPER=1				with settings that tests of infer itself want
#	make CUDA=1						also builds infer_cuda.so (needs nvcc); never probed in silence
#	make installcheck				pg_regress against a running server that has infer preloaded
#	make check-unit					the tests that need no server
#	make release					with the CUDA device for all cards that the toolkit knows
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

comma := ,

EXT_BUILD = $(BUILD)/pg$(PG_MAJOR)$(if $(filter 1,$(DEVELOPER)),-developer)
EXT_SOURCES = $(wildcard src/extension/*.c src/extension/*/*.c src/extension/*/*/*.c src/protocol/*.c)
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

include src/engine/engine.mk

# ---- every object and nothing linked: for cross-compilers ----

objects: $(EXT_OBJECTS) $(ENGINE_OBJECTS)

.PHONY: objects
.PHONY: extension release install-infer uninstall-infer clean-build
extension: $(EXT_MODULE)

# For all cards that the toolkit knows, from sm_75 to sm_120.
release:
	$(MAKE) CUDA=1 CUDA_ARCHS="$(filter $(CUDA_RELEASE),$(CUDA_TOOLKIT))" all

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

-include $(EXT_OBJECTS:.o=.d)
