/*
 * fiber.cc
 *	  Makes stacks and switches between them.
 */
#include "fiber.h"

#include "../emulation.h"

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#ifdef EMULATION_ASAN
#define STACK_BYTES		(256 * 1024)
#else
#define STACK_BYTES		(64 * 1024)
#endif

fiber		fiber_host;
fiber	   *fiber_current;
static fiber *idle;
static unsigned fibers_count;

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

void
fiber_switch(fiber *to, bool from_ends)
{
	fiber	   *from = fiber_current;
#ifdef EMULATION_ASAN
	void	   *fake = nullptr;

	__sanitizer_start_switch_fiber(from_ends ? nullptr : &fake, to->stack, to->bytes);
#endif
	fiber_current = to;
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
	if (fiber_host.stack == nullptr)		/* the first switch of a grid is from there */
	{
		fiber_host.stack = (uint8_t *) stack;
		fiber_host.bytes = bytes;
	}
#endif
	fiber_main();
	abort();
}

fiber *
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

void
fiber_put(fiber *f)
{
	f->next = idle;
	idle = f;
}
