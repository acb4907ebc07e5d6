/*
 * thread.cc
 *	  Runs a kernel's blocks: each of their threads on a stack of its own, from barrier to barrier.
 *
 * Nouns
 *	thread		one of the block's; fresh until it is begun, then running, waiting, ready or gone
 *	fiber		a stack on which threads run: one after the other until one waits, which keeps the stack
 *	party		the threads that wait for each other: the block at a barrier, the lanes of a mask in a warp
 *
 * Loop
 *	for each block, in random order: threads are begun in random order; one that waits lets another go on, a fresh one or a
 *	ready one, as chance has it; the last to arrive at a party makes the others ready.  So a kernel without barriers costs
 *	no switch, and the threads of a block meet in every order that barriers allow, in time.
 *
 * Nothing fresh, nothing ready, and some still wait: others left without them, which is the error that is reported.
 */
#include "emulation.h"

#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

#ifdef EMULATION_ASAN
#define STACK_BYTES		(256 * 1024)
#else
#define STACK_BYTES		(64 * 1024)
#endif

#define WARP			32
#define WARPS_MAX		(EMULATION_THREADS_MAX / WARP)
#define SHARED_TYPES	16

uint3		threadIdx;
uint3		blockIdx;
dim3		blockDim;
dim3		gridDim;
uint64_t	emulation_blocks;
unsigned	emulation_copies;

/* ---- switching stacks ---- */

struct fiber
{
#if defined(__x86_64__)
	void	   *sp;
#else
	ucontext_t	context;
#endif
	uint8_t    *stack;				/* the lowest address; NULL: the host's own */
	size_t		bytes;
	fiber	   *next;				/* among the idle */
};

#if defined(__x86_64__)
/* void fiber_jump(void **from, void *to): registers that a function must keep (System V ABI), on the stack. */
extern "C" void fiber_jump(void **from, void *to);

__asm__(".text\n"
		".type fiber_jump, @function\n"
		".local fiber_jump\n"
		"fiber_jump:\n"
		"	pushq %rbp\n"
		"	pushq %rbx\n"
		"	pushq %r12\n"
		"	pushq %r13\n"
		"	pushq %r14\n"
		"	pushq %r15\n"
		"	movq %rsp, (%rdi)\n"
		"	movq %rsi, %rsp\n"
		"	popq %r15\n"
		"	popq %r14\n"
		"	popq %r13\n"
		"	popq %r12\n"
		"	popq %rbx\n"
		"	popq %rbp\n"
		"	ret\n"
		".size fiber_jump, .-fiber_jump\n");
#endif

static fiber host;
static fiber *current;				/* NULL: no kernel runs */
static fiber *idle;
static unsigned fibers_count;

static void fiber_main();

/* from_ends: its frames will never be gone back to. */
static void
fiber_switch(fiber *to, bool from_ends)
{
	fiber	   *from = current;
#ifdef EMULATION_ASAN
	void	   *fake = nullptr;

	__sanitizer_start_switch_fiber(from_ends ? nullptr : &fake, to->stack, to->bytes);
#endif
	current = to;
#if defined(__x86_64__)
	fiber_jump(&from->sp, to->sp);
#else
	swapcontext(&from->context, &to->context);
#endif
#ifdef EMULATION_ASAN
	__sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
#endif
}

static void
fiber_begin()
{
#ifdef EMULATION_ASAN
	const void *stack;
	size_t		bytes;

	__sanitizer_finish_switch_fiber(nullptr, &stack, &bytes);
	if (host.stack == nullptr)		/* the first switch of a grid is from there */
	{
		host.stack = (uint8_t *) stack;
		host.bytes = bytes;
	}
#endif
	fiber_main();
	abort();
}

/* An idle fiber, or a new one, that will begin in fiber_main(). */
static fiber *
fiber_get()
{
	fiber	   *f = idle;

	if (f != nullptr)
	{
		idle = f->next;
		/* fiber_main() never returned from there */
		unpoison(f->stack + f->bytes - 2048, 2048);
	}
	else
	{
		long		page = sysconf(_SC_PAGESIZE);
		uint8_t    *memory = (uint8_t *) mmap(nullptr, STACK_BYTES + page, PROT_READ | PROT_WRITE,
											  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

		f = new fiber();
		if (memory == MAP_FAILED || mprotect(memory, page, PROT_NONE) != 0)
		{
			perror("emulation: stacks of a block's threads");
			abort();
		}
		f->stack = memory + page;
		/* tops at various places, or all stacks would lie in the same lines of the caches */
		f->bytes = STACK_BYTES - fibers_count++ % 16 * 192;
	}
#if defined(__x86_64__)
	void	  **top = (void **) (f->stack + f->bytes) - 2;

	top[1] = nullptr;
	top[0] = (void *) fiber_begin;
	top -= 6;
	memset(top, 0, 6 * sizeof(*top));
	f->sp = top;
#else
	getcontext(&f->context);
	f->context.uc_stack.ss_sp = f->stack;
	f->context.uc_stack.ss_size = f->bytes;
	f->context.uc_link = nullptr;
	makecontext(&f->context, fiber_begin, 0);
#endif
	return f;
}

static void
fiber_put(fiber *f)
{
	f->next = idle;
	idle = f;
}

/* ---- a block ---- */

enum waiting
{
	WAITS_NOT,
	WAITS_BLOCK,
	WAITS_WARP
};

struct thread
{
	fiber	   *stack;				/* while it waits */
	enum waiting waits;
	bool		gone;
	emulation_place place;			/* where it waits */
	unsigned	mask;				/* of whom */
	int			kind;				/* what a lane gives and gets: -1 nothing, -2 a vote, else enum emulation_shuffle_kind */
	int			by;
	int			width;
	uint64_t	value;
};

struct shared
{
	const void *type;
	size_t		offset;
};

static struct
{
	const emulation_kernel *kernel;
	unsigned	count;				/* threads */
	unsigned	begun;
	unsigned	ended;
	unsigned	first;				/* threads are begun at (first + i · step) mod count */
	unsigned	step;
	unsigned	current;
	unsigned	ready_count;
	unsigned	ready[EMULATION_THREADS_MAX];
	thread		threads[EMULATION_THREADS_MAX];
	uint3		index[EMULATION_THREADS_MAX];

	unsigned	arrived;			/* at the barrier */
	int			votes;
	int			result;
	unsigned	lanes[WARPS_MAX];	/* that wait in their warp */

	bool		failed;
	unsigned	shared_count;
	size_t		shared_bytes;
	shared		types[SHARED_TYPES];
} block;

/* 16 bytes beside a line: what CUDA promises of gpu_shared's memory, and no more. */
static __align__(128) uint8_t shared_memory[EMULATION_SHARED_MAX + 256];
#define SHARED_BASE		16

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
static void
fiber_main()
{
	const emulation_kernel *kernel = block.kernel;
	fiber	   *self = current;
	unsigned	t;

	while (!pick_ready(&t))
	{
		if (block.begun == block.count || block.failed)
		{
			fiber_put(self);
			fiber_switch(&host, true);
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

/* The current thread waits; returns when it may go on. */
static void
thread_wait()
{
	unsigned	self = block.current;
	unsigned	t;

	block.threads[self].stack = current;
	if (block.failed)
		fiber_switch(&host, false);
	else if (pick_ready(&t))
	{
		thread_become(t);
		if (t != self)
			fiber_switch(block.threads[t].stack, false);
	}
	else if (block.begun < block.count)
		fiber_switch(fiber_get(), false);
	else
		fiber_switch(&host, false);	/* nobody can make it ready */
}

static void
thread_ready(unsigned t)
{
	block.threads[t].waits = WAITS_NOT;
	block.ready[block.ready_count++] = t;
}

static void
wait_at(emulation_place place, enum waiting waits)
{
	block.threads[block.current].place = place;
	block.threads[block.current].waits = waits;
}

/* ---- what threads wait for ---- */

static bool
same_place(emulation_place a, emulation_place b)
{
	return a.line == b.line && (a.file == b.file || strcmp(a.file, b.file) == 0);
}

static void
report_places(const char *what, emulation_place a, emulation_place b)
{
	emulation_report("%s: %s of one block: some wait at %s:%d, others at %s:%d", emulation_name(block.kernel->function), what,
					 a.file, a.line, b.file, b.line);
	block.failed = true;
}

int
emulation_barrier(emulation_place place, int predicate)
{
	unsigned	self = block.current;

	if (block.arrived == 0)
		block.votes = 0;
	block.arrived++;
	block.votes += predicate;
	wait_at(place, WAITS_BLOCK);
	if (block.arrived < block.count)
	{
		thread_wait();
		return block.result;
	}
	block.arrived = 0;
	block.result = block.votes;
	for (unsigned t = 0; t < block.count; t++)
	{
		if (!same_place(place, block.threads[t].place))
		{
			report_places("threads", block.threads[t].place, place);
			thread_wait();
		}
		if (t != self)
			thread_ready(t);
	}
	/* who came last goes first no more often than others */
	thread_ready(self);
	thread_wait();
	return block.result;
}

static uint64_t
shuffled(const thread *lanes, unsigned lane)
{
	const thread *self = &lanes[lane];
	int			width = self->width;
	int			base = (int) lane & ~(width - 1);
	int			from = (int) lane;

	switch (self->kind)
	{
		case EMULATION_SHUFFLE_INDEX:
			from = base + (self->by & (width - 1));
			break;
		case EMULATION_SHUFFLE_UP:
			from = (int) lane - self->by < base ? from : from - self->by;
			break;
		case EMULATION_SHUFFLE_DOWN:
			from = (int) lane + self->by >= base + width ? from : from + self->by;
			break;
		case EMULATION_SHUFFLE_XOR:
			from = (from ^ self->by) >= base + width ? from : from ^ self->by;
			break;
	}
	/* what a lane has that does not take part is not defined */
	return from >= 0 && self->mask >> from & 1 ? lanes[from].value : UINT64_MAX;
}

/* All lanes of the mask are there: each gets what is its own. */
static void
warp_finish(unsigned warp, unsigned mask)
{
	thread	   *lanes = &block.threads[warp * WARP];
	uint64_t	results[WARP];
	unsigned	votes = 0;

	for (unsigned lane = 0; lane < WARP; lane++)
		if (mask >> lane & 1 && lanes[lane].kind == -2 && lanes[lane].value != 0)
			votes |= 1u << lane;
	for (unsigned lane = 0; lane < WARP; lane++)
		if (mask >> lane & 1)
			results[lane] = lanes[lane].kind >= 0 ? shuffled(lanes, lane) : votes;
	for (unsigned lane = 0; lane < WARP; lane++)
		if (mask >> lane & 1)
		{
			lanes[lane].value = results[lane];
			thread_ready(warp * WARP + lane);
		}
	block.lanes[warp] &= ~mask;
}

/* A lane's part in what its warp does together; returns what it gets. */
static uint64_t
warp_meet(emulation_place place, int kind, unsigned mask, uint64_t value, int by, int width)
{
	unsigned	self = block.current;
	unsigned	warp = self / WARP;
	unsigned	lane = self % WARP;
	thread	   *lanes = &block.threads[warp * WARP];

	lanes[lane].mask = mask;
	lanes[lane].kind = kind;
	lanes[lane].value = value;
	lanes[lane].by = by;
	lanes[lane].width = width;
	wait_at(place, WAITS_WARP);
	block.lanes[warp] |= 1u << lane;
	if (!(mask >> lane & 1))
	{
		emulation_report("%s: lane %u is not in the mask %08x of its warp at %s:%d", emulation_name(block.kernel->function),
						 lane, mask, place.file, place.line);
		block.failed = true;
	}
	else if ((block.lanes[warp] & mask) == mask)
	{
		for (unsigned other = 0; other < WARP && !block.failed; other++)
			if (mask >> other & 1 && (!same_place(place, lanes[other].place) || lanes[other].mask != mask))
				report_places("lanes of a warp", lanes[other].place, place);
		if (!block.failed)
			warp_finish(warp, mask);
	}
	thread_wait();
	return block.threads[self].value;
}

void
emulation_warp(emulation_place place, unsigned mask)
{
	warp_meet(place, -1, mask, 0, 0, WARP);
}

unsigned
emulation_ballot(emulation_place place, unsigned mask, int predicate)
{
	return (unsigned) warp_meet(place, -2, mask, predicate != 0, 0, WARP);
}

uint64_t
emulation_shuffle(emulation_place place, int kind, unsigned mask, uint64_t value, int by, int width)
{
	return warp_meet(place, kind, mask, value, by, width);
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
	current = &host;
	fiber_switch(fiber_get(), false);
	current = nullptr;
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
	if (current != nullptr)
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
	host.stack = nullptr;
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
