/*
 * thread.cc
 *	  Runs a kernel's blocks: each of their threads on a stack of its own (fiber.cc), from barrier to barrier.
 *
 * Nouns
 *	thread		one of the block's; fresh until it is begun, then running, waiting, ready or gone
 *	fiber		a stack on which threads run: one after the other until one waits, which keeps the stack
 *	party		the threads that wait for each other: party.cc
 *
 * Loop
 *	for each block, in random order: threads are begun in random order; one that waits lets another go on, a fresh one or a
 *	ready one, as chance has it; the last to arrive at a party makes the others ready.  So a kernel without barriers costs
 *	no switch, and the threads of a block meet in every order that barriers allow, in time.
 *
 * Nothing fresh, nothing ready, and some still wait: others left without them, which is the error that is reported.
 */
#include "thread.h"

#include <signal.h>
#include <stdio.h>

uint3		threadIdx;
uint3		blockIdx;
dim3		blockDim;
dim3		gridDim;
uint64_t	emulation_blocks;
unsigned	emulation_copies;
thread_block block;

/* 16 bytes beside a line: what CUDA promises of gpu_shared's memory, and no more. */
static __align__(128) uint8_t shared_memory[EMULATION_SHARED_MAX + 256];
#define SHARED_BASE		16

/* ---- threads ---- */

static void
thread_become(unsigned t)
{
	block.current = t;
	threadIdx = block.index[t];
}

/* The next thread that is begun. */
static unsigned
thread_fresh()
{
	unsigned	t = block.first;

	block.first += block.step;
	if (block.first >= block.count)
		block.first -= block.count;
	block.begun++;
	return t;
}

/* The next thread that goes on: true and *t, or false where a fresh one should begin. */
static bool
pick_ready(unsigned *t)
{
	unsigned	fresh = block.count - block.begun;
	unsigned	pick;

	if (block.ready_count == 0)
		return false;
	pick = emulation_below(fresh + block.ready_count);
	if (pick >= block.ready_count)
		return false;
	*t = block.ready[pick];
	block.ready[pick] = block.ready[--block.ready_count];
	return true;
}

/* Runs threads until there is one that goes on elsewhere, or none. */
void
fiber_main()
{
	const emulation_kernel *kernel = block.kernel;
	fiber	   *self = fiber_current;
	unsigned	t;

	while (!pick_ready(&t))
	{
		if (block.begun == block.count || block.failed)
		{
			fiber_put(self);
			fiber_switch(&fiber_host, true);
			abort();
		}
		t = thread_fresh();
		thread_become(t);
		block.threads[t].waits = WAITS_NOT;
		block.threads[t].gone = false;
		kernel->run(kernel->call);
		block.threads[block.current].gone = true;
		block.ended++;
	}
	fiber_put(self);
	thread_become(t);
	fiber_switch(block.threads[t].stack, true);
	abort();
}

void
thread_wait()
{
	unsigned	self = block.current;
	unsigned	t;

	block.threads[self].stack = fiber_current;
	if (block.failed)
		fiber_switch(&fiber_host, false);
	else if (pick_ready(&t))
	{
		thread_become(t);
		if (t != self)
			fiber_switch(block.threads[t].stack, false);
	}
	else if (block.begun < block.count)
		fiber_switch(fiber_get(), false);
	else
		fiber_switch(&fiber_host, false);	/* nobody can make it ready */
}

void
thread_ready(unsigned t)
{
	block.threads[t].waits = WAITS_NOT;
	block.ready[block.ready_count++] = t;
}

void
emulation_trap(emulation_place place)
{
	emulation_report("%s: trap at %s:%d", emulation_name(block.kernel->function), place.file, place.line);
	block.failed = true;
	thread_wait();
	abort();
}

void *
emulation_shared(const void *type, size_t bytes)
{
	uint8_t    *memory;

	for (unsigned i = 0; i < block.shared_count; i++)
		if (block.types[i].type == type)
			return shared_memory + SHARED_BASE + block.types[i].offset;
	if (block.shared_count == SHARED_TYPES || block.shared_bytes + bytes > EMULATION_SHARED_MAX)
	{
		emulation_report("%s: more than %d bytes of shared memory in a block", emulation_name(block.kernel->function),
						 EMULATION_SHARED_MAX);
		block.failed = true;
		thread_wait();
	}
	memory = shared_memory + SHARED_BASE + block.shared_bytes;
	unpoison(memory, bytes);
	memset(memory, 0xFF, bytes);
	block.types[block.shared_count++] = {type, block.shared_bytes};
	block.shared_bytes += (bytes + 31) / 16 * 16;	/* at least 16 bytes between two */
	return memory;
}

/* ---- blocks ---- */

static unsigned
common_divisor(unsigned a, unsigned b)
{
	while (b != 0)
	{
		unsigned	rest = a % b;

		a = b;
		b = rest;
	}
	return a;
}

/* A random step that visits all of n places. */
static unsigned
random_step(unsigned n)
{
	for (;;)
	{
		unsigned	step = 1 + emulation_below(n);

		if (common_divisor(step, n) == 1)
			return n == 1 ? 0 : step;
	}
}

static void
report_stuck()
{
	unsigned	waiting = 0;
	const thread *first = nullptr;

	for (unsigned t = 0; t < block.count; t++)
		if (!block.threads[t].gone)
		{
			waiting++;
			if (first == nullptr)
				first = &block.threads[t];
		}
	emulation_report("%s: block (%u, %u, %u): %u of %u threads wait at %s:%d for others that %s",
					 emulation_name(block.kernel->function), blockIdx.x, blockIdx.y, blockIdx.z, waiting, block.count,
					 first->place.file, first->place.line, block.ended > 0 ? "left" : "wait elsewhere");
	block.failed = true;
}

/* What they would have written is memory of the next block's. */
static void
report_copies()
{
	emulation_report("%s: block (%u, %u, %u) ends with %u copies to shared memory that it has not waited for",
					 emulation_name(block.kernel->function), blockIdx.x, blockIdx.y, blockIdx.z, emulation_copies);
	block.failed = true;
}

/* The stacks of threads that will never end. */
static void
drop_threads()
{
	for (unsigned t = 0; t < block.count; t++)
		if (!block.threads[t].gone && block.threads[t].stack != nullptr)
		{
			unpoison(block.threads[t].stack->stack, block.threads[t].stack->bytes);
			fiber_put(block.threads[t].stack);
			block.threads[t].stack = nullptr;
		}
}

static bool
run_block()
{
	block.begun = block.ended = block.ready_count = block.arrived = 0;
	block.first = emulation_below(block.count);
	block.shared_count = 0;
	block.shared_bytes = 0;
	emulation_blocks++;
	emulation_copies = 0;
	fiber_current = &fiber_host;
	fiber_switch(fiber_get(), false);
	fiber_current = nullptr;
	poison(shared_memory + SHARED_BASE, block.shared_bytes);
	if (!block.failed && block.ended < block.count)
		report_stuck();
	if (!block.failed && emulation_copies > 0)
		report_copies();
	if (block.failed)
		drop_threads();
	return !block.failed;
}

static void
grid_indices(dim3 size)
{
	static dim3 last(0);

	if (size.x == last.x && size.y == last.y && size.z == last.z)
		return;
	last = size;
	for (unsigned t = 0; t < block.count; t++)
		block.index[t] = make_uint3(t % size.x, t / size.x % size.y, t / size.x / size.y);
}

/* Names the kernel, then lets the signal do what it does. */
static void
fault(int signal, siginfo_t *info, void *context)
{
	if (fiber_current != nullptr)
		fprintf(stderr, "emulation: %s: access to %p, which is no device memory (INFER_EMULATED_SEED=%llu)\n",
				emulation_name(block.kernel->function), info->si_addr, (unsigned long long) settings.seed);
	else
		fprintf(stderr, "emulation: access to %p by the host: is it device memory?\n", info->si_addr);
	::signal(signal, SIG_DFL);
}

/* AddressSanitizer has its own. */
static void
catch_faults()
{
	static bool caught;
	static uint8_t *stack;
	struct sigaction action = {};
	struct sigaction old;
	stack_t		alternate = {};

	if (caught)
		return;
	caught = true;
	if (sigaction(SIGSEGV, nullptr, &old) != 0 || (old.sa_flags & SA_SIGINFO) || old.sa_handler != SIG_DFL)
		return;
	stack = (uint8_t *) malloc(64 * 1024);
	alternate.ss_sp = stack;
	alternate.ss_size = 64 * 1024;
	sigaltstack(&alternate, nullptr);
	action.sa_sigaction = fault;
	action.sa_flags = SA_SIGINFO | SA_ONSTACK;
	sigaction(SIGSEGV, &action, nullptr);
	sigaction(SIGBUS, &action, nullptr);
}

bool
emulation_grid(const emulation_kernel *kernel)
{
	uint64_t	count = (uint64_t) kernel->grid.x * kernel->grid.y * kernel->grid.z;
	unsigned	step_x = random_step(kernel->grid.x);
	unsigned	first_x = emulation_below(kernel->grid.x);

	catch_faults();
	gridDim = kernel->grid;
	blockDim = kernel->block;
	block.kernel = kernel;
	block.count = kernel->block.x * kernel->block.y * kernel->block.z;
	block.step = random_step(block.count);
	block.failed = false;
	memset(block.lanes, 0, sizeof(block.lanes));
	for (unsigned t = 0; t < block.count; t++)
		block.threads[t].stack = nullptr;
	grid_indices(kernel->block);
	fiber_host.stack = nullptr;
	poison(shared_memory, sizeof(shared_memory));
	for (uint64_t i = 0, x = first_x; i < count; i++)
	{
		uint64_t	row = i / kernel->grid.x;

		blockIdx = make_uint3((unsigned) x, (unsigned) (row % kernel->grid.y), (unsigned) (row / kernel->grid.y));
		x += step_x;
		if (x >= kernel->grid.x)
			x -= kernel->grid.x;
		if (!run_block())
			return false;
	}
	return true;
}
