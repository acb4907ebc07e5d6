# the CUDA device: a library that the engine opens at run time, where there is one.
#
# CUDA_ARCHS: the SASS that is made; PTX of the last one serves later cards.  `make release` makes all that the toolkit knows.

NVCC ?= nvcc
CUDA_ARCHS ?= 80
CUDA_RELEASE = 75 80 86 89 90 100 120
CUDA_TOOLKIT = $(patsubst compute_%,%,$(shell $(NVCC) --list-gpu-arch))
CUDA_BUILD = $(ENGINE_BUILD)/nvidia
CUDA_SOURCES = $(wildcard cuda/*.cu cuda/*/*.cu cuda/*/*/*.cu)
CUDA_HEADERS = $(wildcard cuda/*.h cuda/*/*.h cuda/*/*/*.h) src/engine/device.h src/engine/status.h src/protocol/errors.h
# what it has of the engine's own code
CUDA_ENGINE = status device_type device_graph
CUDA_OBJECTS = $(CUDA_SOURCES:cuda/%.cu=$(CUDA_BUILD)/%.o) $(CUDA_ENGINE:%=$(CUDA_BUILD)/%.o)
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

$(CUDA_ENGINE:%=$(CUDA_BUILD)/%.o): $(CUDA_BUILD)/%.o: src/engine/%.c src/engine/device.h src/engine/status.h
	@mkdir -p $(@D)
	$(ENGINE_CC) $(ENGINE_CFLAGS) -fPIC -fvisibility=hidden -c -o $@ $<

$(CUDA_MODULE): $(CUDA_OBJECTS)
	$(NVCC) -shared -cudart static $(CUDA_GENCODE) -Wno-deprecated-gpu-targets -o $@ $^ -ldl -lpthread

# The same sources for the CPU, over an emulation of CUDA: what tests run.
ENGINE_CXX ?= $(if $(findstring clang,$(ENGINE_CC)),clang++,$(patsubst %gcc,%g++,$(patsubst cc,g++,$(ENGINE_CC))))
EMULATION_BUILD = $(ENGINE_BUILD)/emulation
EMULATION_SOURCES = $(wildcard test/kernels/emulation/*.cc test/kernels/emulation/*/*.cc)
EMULATION_OBJECTS = $(CUDA_SOURCES:cuda/%.cu=$(EMULATION_BUILD)/%.o) $(EMULATION_SOURCES:test/kernels/emulation/%.cc=$(EMULATION_BUILD)/runtime/%.o) \
	$(CUDA_ENGINE:%=$(EMULATION_BUILD)/%.o)
EMULATION_MODULE = $(EMULATION_BUILD)/infer_cuda.so
EMULATION_CXXFLAGS = -std=gnu++17 $(ENGINE_OPT) -ffp-contract=off -fno-strict-aliasing -fPIC -fvisibility=hidden -pthread -D_GNU_SOURCE \
	$(CUDA_WARNINGS) -Wno-unknown-pragmas $(WERROR) -Itest/kernels/emulation $(CUDA_DEFINES) $(ENGINE_EXTRA)

$(EMULATION_BUILD)/%.o: cuda/%.cu infer.control
	@mkdir -p $(@D)
	$(ENGINE_CXX) $(EMULATION_CXXFLAGS) -MMD -MP -x c++ -c -o $@ $<

$(EMULATION_BUILD)/runtime/%.o: test/kernels/emulation/%.cc
	@mkdir -p $(@D)
	$(ENGINE_CXX) $(EMULATION_CXXFLAGS) -MMD -MP -c -o $@ $<

$(CUDA_ENGINE:%=$(EMULATION_BUILD)/%.o): $(EMULATION_BUILD)/%.o: src/engine/%.c src/engine/device.h src/engine/status.h
	@mkdir -p $(@D)
	$(ENGINE_CC) $(ENGINE_CFLAGS) -fPIC -fvisibility=hidden -c -o $@ $<

$(EMULATION_MODULE): $(EMULATION_OBJECTS)
	$(ENGINE_CXX) -shared $(ENGINE_OPT) $(ENGINE_EXTRA) -o $@ $^ -ldl -lm -pthread

cuda: $(CUDA_MODULE)
emulation: $(EMULATION_MODULE)
emulation-objects: $(EMULATION_OBJECTS)

.PHONY: cuda emulation emulation-objects

