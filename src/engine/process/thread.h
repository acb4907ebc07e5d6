/*
 * thread.h
 *	  How a thread shares cores with others.
 */
#ifndef ENGINE_THREAD_H
#define ENGINE_THREAD_H

/*
 * The calling thread computes for milliseconds on end: it keeps its part of the cores, and takes it in longer
 * slices, so that a thread that wakes with little to do (the loop, a session) has a core at once rather
 * than at the kernel's next tick.  Linux 6.12 and later; before, nothing changes.
 */
extern void thread_computes(void);

#endif							/* ENGINE_THREAD_H */
