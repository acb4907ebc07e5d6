/*
 * program.cu
 *	  From a graph to a program: plans, constants, segments.
 */
#include "cuda.h"

uint64_t
cuda_constant_add(cuda_making *making, const void *data, uint64_t bytes, bool copied)
{
	return 0;
}

/* In the order of enum device_opcode. */
extern const cuda_make_fn cuda_makers[DEVICE_OPCODES];
const cuda_make_fn cuda_makers[DEVICE_OPCODES] = {
	nullptr, cuda_make_gemm, cuda_make_matmul, cuda_make_unary, cuda_make_binary, cuda_make_where, cuda_make_cast,
	cuda_make_copy, cuda_make_concat, cuda_make_gather, cuda_make_reduce, cuda_make_softmax, cuda_make_arg,
	cuda_make_normalize, cuda_make_lookup, cuda_make_cumsum, cuda_make_topk, cuda_make_offset, cuda_make_scatter,
	cuda_make_distance, cuda_make_couple, cuda_make_trees, cuda_make_norm, cuda_make_attention, cuda_make_rotary,
	cuda_make_gate, cuda_make_pool, cuda_make_quantise
};
