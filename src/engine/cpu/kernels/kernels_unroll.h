/*
 * kernels_unroll.h
 *	  A loop of few passes that is to be written out, so that its arrays are registers.
 */
#ifndef ENGINE_CPU_KERNELS_UNROLL_H
#define ENGINE_CPU_KERNELS_UNROLL_H

#ifdef __clang__
#define UNROLL	_Pragma("clang loop unroll(full)")
#else
#define UNROLL	_Pragma("GCC unroll 16")
#endif

#endif							/* ENGINE_CPU_KERNELS_UNROLL_H */
