/*
 * device.h
 *	  The contract between the engine and whatever computes: the CPU pool, a GPU, and a
 *	  device that fails on demand.
 *
 * Nouns
 *	device		one per GPU, one for the CPU pool, one "null" (the CPU with faults)
 *	item		what a tensor has one of per ROW, per TOKEN or per SEQUENCE: a tensor is its
 *				items end to end, each of the same fixed shape.  This is how rule 4 (same
 *				row, same bits) is built in: an operator is defined on the shape that a model
 *				has at batch 1, and a batch maps it over items.  No operator ever sees, and
 *				none can mix, two items, except the sequence operators, which say so.
 *	lead		what a tensor's items are: NONE (one item, shared by the batch: a constant
 *				or something computed from constants), ROWS, TOKENS or SEQS
 *	op			one primitive with its tensors and parameters (struct device_op)
 *	program		the ops of a model, compiled: segments, arena, weights
 *	batch		how many items of each lead a run has, and where rows begin (packed)
 *	ticket		the promise that an enqueued run completes; monotonic per queue
 *	arena		the memory of a run's intermediate tensors
 *
 * Loop
 *	open → supports(op) for each op at placement → weight_pack → compile → then for each
 *	batch: enqueue → poll or wait until the ticket is done, failed or lost.
 *
 * Obligations
 *	 1. A row's result is a function of the row, its history, the weights and
 *		numerics_id: never of the number of rows, position, arena, threads, queue or
 *		bucket.
 *	 2. A weight has one numerics for every number of rows M, fixed by weight_pack.  A
 *		kernel may decline at compile, never at enqueue.
 *	 3. enqueue returns without waiting (an asynchronous device) or has run to its end or to
 *		a yield (the CPU).  Callers treat both alike, through tickets.  The CPU device may
 *		run on the caller's thread and wake nobody.  An asynchronous device waits in enqueue for what
 *		comes before a segment of the CPU's (14), and computes that on the caller's thread.
 *	 4. Every ticket completes exactly once, whatever fails.  LOST means: the device is of no
 *		more use, replace the process.  How a ticket ended is kept for the last
 *		DEVICE_TICKETS_KEPT completed ones of its queue; an older one is said to be DONE, whatever
 *		became of it, and its time is not known.
 *	 5. Buffers, arena, batch arrays and bindings belong to the device until the ticket
 *		completes.
 *	 6. Segments are resumable: all state between two of them lies in arena and KV.  The
 *		scheduler sizes segments so that estimate() stays below a slice; the CPU device
 *		checks the yield flag between ops.
 *	 7. After the first run of a bucket, enqueue allocates nothing, takes no contended lock
 *		and touches no file.
 *	 8. The KV cache is a pool of equal blocks that the engine owns.  Kernels write K and V
 *		before they read them, and only through kv_table.  Blocks are shared read-only,
 *		copied by copy(), and freed after the last ticket that names them.
 *	 9. What the host needs in the middle (shapes known only at run time, If and Loop,
 *		sampling) ends a segment and is read through STAGING.  Shape arithmetic and strings
 *		live on the host and are never copied up.
 *	10. No rows, no tokens and NaN are legal.  A NaN stays in its row.  Memory past the last
 *		item is never data.
 *	11. Out of memory is an ordinary status at alloc, pack, compile or enqueue, and names
 *		the bytes wanted.
 *	12. weight_size and the arena's size are exact before anything is loaded.
 *	13. One thread at a time calls enqueue on a queue; poll, wait and cancel may be called
 *		from any thread.
 *	14. An op that a device does not support is placed on the CPU device at compile, as a
 *		segment of its own with counted copies, shown to the user; never silently, never at
 *		run time.  It has run when enqueue gives out the ticket, so that cancel cannot reach it: who
 *		wants to stop a run in the middle cuts it with segment_end, and enqueues the rest later.
 *	15. Programs of one queue run in order; across queues only tickets order them.
 *	16. The null device implements all that some device implements, with delay, failure,
 *		loss, hang and out-of-memory on the n-th call.
 *
 * Memory.  A queue computes in memory that buffer_alloc gave for it: an ARENA, which the host never
 * looks into, and STAGING, host memory, for bindings: a device with memory of its own copies inputs (bindings
 * that no op writes) up when a run's first segment is enqueued, and the others down with its last one.
 * A run keeps its arena from its first segment to its last; others may run between on other arenas.
 *
 * Several queues of DEVICE_BATCHES may be in use at once, a thread each (info.inflight_max says how many are
 * worth it): two for each GPU, so that one batch is gathered while another computes.  Queues of batches are given to GPUs
 * in turn, as they are created; info.threads counts these then.
 *
 * What decoders will add: buffer kind KV, copy(queue, list of {dst, src, bytes}) → ticket, and ops over
 * kv_table [seqs × blocks], kv_len, logit_rows; their bindings add position.
 * Trees and graphs bind [rows, features]; encoders bind [tokens] with row_off.
 */
#ifndef ENGINE_DEVICE_H
#define ENGINE_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct status;

#define DEVICE_RANK_MAX		8
#define DEVICE_ALIGN		64		/* bytes: every tensor in an arena begins on this */

enum device_type					/* the numbers of protocol.h's infer_type */
{
	DEVICE_F32 = 1,
	DEVICE_F64 = 2,
	DEVICE_I32 = 3,
	DEVICE_I64 = 4,
	DEVICE_BOOL = 5,				/* one byte, 0 or 1 */
	DEVICE_STRING = 6,				/* struct device_text; host only */

	/* and those that stay inside the engine */
	DEVICE_BF16 = 7,				/* the upper half of an F32 */
	DEVICE_F16 = 8,					/* of weights and constants in files: packed and cast, not computed with */
	DEVICE_Q8 = 9					/* vectors of one byte numbers, each with its scale: see QUANTISE */
};

/* What a weight is packed in, and so what its products are computed in. */
enum device_precision
{
	DEVICE_PRECISION_FULL = 0,		/* F64 for a matrix of F64, else F32 */
	DEVICE_PRECISION_BF16 = 1,
	DEVICE_PRECISION_INT8 = 2,
	DEVICE_PRECISIONS
};

struct device_text					/* a string in a tensor: bytes that outlive the run */
{
	const char *data;
	uint64_t	length;
};

enum device_lead
{
	DEVICE_LEAD_NONE = 0,
	DEVICE_LEAD_ROWS = 1,
	DEVICE_LEAD_TOKENS = 2,
	DEVICE_LEAD_SEQS = 3,			/* reserved */
	DEVICE_LEADS = 4
};

struct device_tensor
{
	uint8_t		type;				/* enum device_type */
	uint8_t		lead;				/* enum device_lead */
	uint8_t		rank;				/* of one item; 0: a scalar */
	int64_t		dims[DEVICE_RANK_MAX];	/* of one item; 0 is legal */
	const void *constant;			/* host memory that outlives the program: NULL if computed */
	int32_t		binding;			/* index into the run's bindings, or -1 */
	uint64_t	offset;				/* in the arena's part of its lead: bytes per item (a
									 * multiple of DEVICE_ALIGN); unused for constants and
									 * bindings.  Filled by the memory plan of graph/. */
};

/* ---- primitives ---- */

/*
 * Shapes are those of one item.  "Broadcast" is ONNX's (NumPy's) rule on items, and an
 * operand of lead NONE is shared by all items.  An op's output has lead ROWS if any
 * input has, else NONE.  Types: unless said otherwise all inputs and the output have
 * one type.  Parameters live in f[] and i[].
 *
 * GEMM			y[…,N] = act(x[…,K] · W[K,N] + b).  in: x, b (or -1); weight: W, packed.
 *				b is [N] or a scalar.  fn: the activation, a unary function (UNARY_NONE for
 *				none) with its f[].  F32, F64.  One chain of fused multiply-adds along K from
 *				k = 0 starting at +0, then + b, then act.  b has lead NONE.  A weight of precision
 *				BF16 takes x of BF16, one of INT8 x of Q8 (see below); b is F32 then, and y F32 or
 *				BF16, which is rounded last.
 * MATMUL		y[…,M,N] = a[…,M,K] · b[…,K,N], leading dimensions broadcast, rank ≥ 2 both.
 *				Same chain.  F32, F64, I32, I64.
 * UNARY		y = fn(x; f[0], f[1]).
 * BINARY		y = fn(a, b), broadcast.  Comparisons and logic give BOOL.  Integers wrap
 *				around; their division by zero, and zero to a negative power, is this row's
 *				error.
 * WHERE		y = c ? a : b, broadcast; in: c (BOOL), a, b.
 * CAST			y = (type of y) x.  ONNX's rules: float to integer truncates, NaN and
 *				what does not fit is this row's error; to BOOL: x ≠ 0; to and from STRING
 *				on the host (not with BOOL).  A text that a cast makes lives in the arena:
 *				until the run's arena is used again.  F32 to BF16 rounds to nearest even; a
 *				denormal becomes a zero of its sign, a NaN stays one and is quiet.  BF16 and F16 to
 *				F32 are exact; other casts of these two there are none.
 * QUANTISE		y = x in whole numbers, a vector of the last axis at a time: Q8 of K + 4 bytes for F32
 *				of K.  See below.
 * COPY			y[j0,…] = x.flat[i[0] + Σ jd · i[1+d]]: transpose, slice, flip, expand,
 *				reshape.  Any type.
 * CONCAT		along axis i[0]; any number of inputs.
 * GATHER		y = x along axis i[0] at indices (in: x, indices I32 or I64); a negative index
 *				counts from the end; one out of range is this row's error.
 * REDUCE		fn over the axes whose bit is set in i[0]; y keeps them as 1 if i[1].  Order:
 *				ascending position within the reduced elements, in fixed blocks of 16 partial
 *				sums combined in a fixed tree, whatever the number of items.
 * SOFTMAX		fn (SOFTMAX_*) along axis i[0], over i[1] following dimensions seen as one
 *				(0: that axis alone; ONNX before 13 flattens).
 * ARG			fn (ARG_MAX, ARG_MIN) along axis i[0]; i[1] keep the axis; i[2] last of equals
 *				rather than first.  y: I64.  NaN: as NumPy, the first NaN wins.
 * NORMALIZE	fn (NORMALIZE_MAX, _L1, _L2) of the last axis (ai.onnx.ml Normalizer; a zero
 *				norm leaves the row as it is; MAX divides by the greatest element, not by the
 *				greatest magnitude: the operator's formula, and onnxruntime).
 * LOOKUP		y = table[x]: an exact map from numbers or strings to numbers or strings,
 *				params: struct device_lookup.  Host.
 * CUMSUM		y = running sums of x along axis i[0], from its end if i[2]; i[1]: without the
 *				element itself, from 0.  Elements are added one after the other.  Numbers.
 * TOPK			y (I64) = places along axis i[0] of the elements that are first in the order of
 *				fn (TOPK_LARGEST, TOPK_SMALLEST), as many as y's axis has, in that order; of
 *				equals the one of the lower place first; a NaN is greater than every number.
 * OFFSET		y (I64) = the place in a row-major array of sizes i[0 … q − 1], times i[8], that
 *				each run of q elements along x's last axis names (q: its length, at most 8;
 *				x: I32, I64).  A negative one counts from the end; one out of range is this row's
 *				error and gives 0.
 * SCATTER		y = x, but that y[p[j]·a + e] = fn(what is there, u[j·a + e]), j ascending, where a
 *				is u's elements by p's (fn: SCATTER_*).  in: x, p (I64), u.  A place out of range
 *				is this row's error.  SCATTER_SET: any type, the others numbers.
 * DISTANCE		y[…,s] = Σ (x[…,f] − c[s,f])², summed as by REDUCE.  in: x, c (lead NONE).  F32, F64.
 * COUPLE		y[…,C] = the probabilities of C = i[0] classes that agree best with those of all
 *				pairs i < j, x[…,C(C − 1)/2], that it is i and not j.  Algorithm 2 of Wu, Lin and Weng
 *				(JMLR 5, 2004): at most 100 rounds, until no error is 0.005 / C.  F32.
 * TREES		y[…,targets] = fn (TREES_SUM, TREES_MIN, TREES_MAX) over the trees of what their
 *				leaves say of x[…,features], params: struct device_trees.  F32, F64.  A sum
 *				starts at +0 and adds in the order of the trees, within a leaf in that of its
 *				votes; a target for which no leaf votes is +0.
 *
 * Of encoders; x and y have lead TOKENS unless said otherwise, all F32:
 *
 * NORM			y = fn(x + r) · g + b over the last axis, in: x, r (or -1), g (or -1), b (or -1); f[0]: epsilon.
 *				fn: NORM_LAYER (x − mean) / √(var + ε), NORM_RMS x / √(mean of squares + ε).  Sums as by
 *				REDUCE.  Any lead.
 * ATTENTION	y[D·H] = for each of H = i[0] heads of D = i[1] numbers Σj softmaxj(f[0] · q·kj + a(j − i)) vj,
 *				j over the tokens of the same row; in: x[3·H·D], q of all heads, then k, then v; a (or -1):
 *				lead NONE [H, 2·i[3] + 1], what is added for j − i from −i[3] to i[3], beyond them the ends.
 *				i[2]: only j with |j − i| ≤ i[2]; 0: all.  Keys are taken in blocks of a fixed size from the row's first
 *				token on; nothing of length × length is ever stored.  Where the device has it, x and y may both
 *				be BF16: products are then as below (on a CPU: pairs), and a weight is rounded where it meets a value.
 * ROTARY		y = x with the first i[2] of the D = i[1] numbers of each of its first i[0] heads turned by
 *				the angle of the token's place in its row: (a, b) → (a·cos − b·sin, b·cos + a·sin), a and
 *				b being i[2]/2 apart (i[3] = 0) or neighbours (1).  in: x[…], table: lead NONE [P, i[2]],
 *				a place's i[2]/2 cosines, then sines.  A place beyond P is this row's error.
 * GATE			y[I] = fn(u) · w with x[2·I]: u its first half and w the other (i[0] = 0), or the other
 *				way round (1).  fn: a unary function.
 * POOL			y, lead ROWS: fn (POOL_*) over the tokens of a row, from its row_first on.  A row without such
 *				tokens is zeros.  POOL_FIRST and POOL_LAST: F32 or BF16.  POOL_WEIGHTED: Σ p·x / Σ p, p being a
 *				token's place in its row, from 1.
 *
 * Products in BF16.  A product of two BF16 numbers is exact in F32; sums are F32, rounded to
 * nearest even; denormal operands and sums are zeros of their sign.  One of these chains,
 * which a device's numerics_id tells apart:
 *	 pairs	sum = x[k+1] · w[k+1] + sum, then sum = x[k] · w[k] + sum, each with one rounding, for
 *			k = 0, 2, …, from +0 (VDPBF16PS: Intel, Software Developer's Manual, volume 2C)
 *	 tiles	for each 32 of K two such chains from +0, one of the even k and one of the odd; they are
 *			added, and that is added to the sum (TDPBF16PS: the same)
 * K is filled with zeros.
 * The CUDA device is near these, not equal: its tensor cores take 16 of K at once, from k = 0 on, into one F32 sum, and round
 * within as NVIDIA does not say; its library of products, which may compute F32 too, goes along K as it likes, though alike for
 * every number of rows, and may store a NaN as another one.
 *
 * Products in INT8.  A vector x of K numbers becomes q[k] = x[k] · (127 / a) to the nearest whole
 * number, halves to even, where a is its greatest magnitude, with the scale a / 127; one of
 * a < 2^-100 becomes zeros with the scale 0, one with an infinity or a NaN zeros with the scale
 * NaN.  Its Q8 form is K bytes q[k] + 128 and then the scale, an F32 that need not be aligned:
 * the axis has K + DEVICE_Q8_SCALE elements.  A column of W is treated the same when it is packed; a number
 * that is not finite refuses it.  Then y = act(((F32) Σ q[k] · w[k] · scale of x) · scale of w + b), where the last
 * product and sum have one rounding: Σ is exact, so that all devices agree; K ≤ DEVICE_Q8_MAX.
 *
 * NaNs that arithmetic makes are stored as the one quiet NaN (0x7FC00000), so that bits do
 * not depend on which of two NaN operands an instruction hands on.
 *
 * To come: KV …
 */
enum device_opcode
{
	DEVICE_OP_GEMM = 1,
	DEVICE_OP_MATMUL,
	DEVICE_OP_UNARY,
	DEVICE_OP_BINARY,
	DEVICE_OP_WHERE,
	DEVICE_OP_CAST,
	DEVICE_OP_COPY,
	DEVICE_OP_CONCAT,
	DEVICE_OP_GATHER,
	DEVICE_OP_REDUCE,
	DEVICE_OP_SOFTMAX,
	DEVICE_OP_ARG,
	DEVICE_OP_NORMALIZE,
	DEVICE_OP_LOOKUP,
	DEVICE_OP_CUMSUM,
	DEVICE_OP_TOPK,
	DEVICE_OP_OFFSET,
	DEVICE_OP_SCATTER,
	DEVICE_OP_DISTANCE,
	DEVICE_OP_COUPLE,
	DEVICE_OP_TREES,
	DEVICE_OP_NORM,
	DEVICE_OP_ATTENTION,
	DEVICE_OP_ROTARY,
	DEVICE_OP_GATE,
	DEVICE_OP_POOL,
	DEVICE_OP_QUANTISE,
	DEVICE_OPCODES
};

enum device_unary					/* formulas: ONNX operator specification, opset 25 */
{
	UNARY_NONE = 0,					/* identity */
	UNARY_ABS, UNARY_NEG, UNARY_SIGN, UNARY_RECIPROCAL, UNARY_SQRT, UNARY_EXP, UNARY_LOG,
	UNARY_FLOOR, UNARY_CEIL, UNARY_ROUND,		/* round: half to even */
	UNARY_ERF, UNARY_TANH, UNARY_SIGMOID,
	UNARY_SIN, UNARY_COS, UNARY_TAN, UNARY_ASIN, UNARY_ACOS, UNARY_ATAN,
	UNARY_SINH, UNARY_COSH, UNARY_ASINH, UNARY_ACOSH, UNARY_ATANH,
	UNARY_RELU,
	UNARY_LEAKY_RELU,				/* f0 alpha */
	UNARY_ELU,						/* f0 alpha */
	UNARY_SELU,						/* f0 alpha, f1 gamma */
	UNARY_CELU,						/* f0 alpha */
	UNARY_THRESHOLDED_RELU,			/* f0 alpha */
	UNARY_HARD_SIGMOID,				/* f0 alpha, f1 beta */
	UNARY_HARD_SWISH,
	UNARY_SOFTPLUS, UNARY_SOFTSIGN, UNARY_MISH,
	UNARY_GELU,						/* by erf */
	UNARY_GELU_TANH,
	UNARY_SWISH,					/* f0 alpha: x · sigmoid(alpha x) */
	UNARY_SHRINK,					/* f0 lambd, f1 bias */
	UNARY_CLIP,						/* f0 min, f1 max */
	UNARY_PROBIT,					/* ai.onnx.ml post-transform */
	UNARY_NOT,						/* BOOL to BOOL */
	UNARY_IS_NAN,					/* to BOOL */
	UNARY_IS_INF,					/* to BOOL; f0 detect negative, f1 detect positive */
	UNARY_FUNCTIONS
};

enum device_binary
{
	BINARY_ADD = 1, BINARY_SUB, BINARY_MUL, BINARY_DIV, BINARY_POW,
	BINARY_MIN, BINARY_MAX,			/* NaN if either is NaN */
	BINARY_MOD,						/* sign of the divisor (integers, Python's %) */
	BINARY_FMOD,					/* sign of the dividend (C's fmod) */
	BINARY_PRELU,					/* x < 0 ? slope · x : x */
	BINARY_EQUAL, BINARY_LESS, BINARY_LESS_EQUAL, BINARY_GREATER, BINARY_GREATER_EQUAL,	/* to BOOL;
									 * EQUAL also on BOOL and STRING */
	BINARY_AND, BINARY_OR, BINARY_XOR,	/* BOOL */
	BINARY_BIT_AND, BINARY_BIT_OR, BINARY_BIT_XOR,	/* I32, I64 */
	BINARY_FUNCTIONS
};

enum device_reduce
{
	REDUCE_SUM = 1, REDUCE_MEAN, REDUCE_MAX, REDUCE_MIN, REDUCE_PROD,
	REDUCE_L1, REDUCE_L2, REDUCE_LOG_SUM, REDUCE_LOG_SUM_EXP, REDUCE_SUM_SQUARE,
	REDUCE_FUNCTIONS
};

enum device_softmax
{
	SOFTMAX_PLAIN = 1, SOFTMAX_LOG, SOFTMAX_HARD,
	SOFTMAX_ZERO					/* ai.onnx.ml: zeros (magnitudes up to 1e-7) become zero and
									 * take no part; nothing but zeros stays zeros */
};

enum device_arg
{
	ARG_MAX = 1, ARG_MIN
};

enum device_topk
{
	TOPK_LARGEST = 1, TOPK_SMALLEST
};

enum device_scatter
{
	SCATTER_SET = 1, SCATTER_ADD, SCATTER_MUL, SCATTER_MAX, SCATTER_MIN
};

enum device_normalize
{
	NORMALIZE_MAX = 1, NORMALIZE_L1, NORMALIZE_L2
};

enum device_norm
{
	NORM_LAYER = 1, NORM_RMS
};

enum device_pool					/* sentence-transformers' pooling modes */
{
	POOL_FIRST = 1, POOL_MEAN, POOL_MAX, POOL_MEAN_SQRT, POOL_LAST, POOL_WEIGHTED,
	POOL_FUNCTIONS
};

struct device_lookup				/* keys are distinct; NaN may be a key */
{
	uint32_t	count;
	uint8_t		key_type;			/* of x: F32, F64, I64, STRING */
	uint8_t		value_type;			/* of y: F32, F64, I64, STRING */
	bool		has_default;		/* else a key that is not there is this row's error */
	const void *keys;				/* count values of key_type, sorted ascending (NaN last) */
	const void *values;				/* in the order of keys */
	const void *default_value;
};

enum device_trees_function
{
	TREES_SUM = 1, TREES_MIN, TREES_MAX
};

/*
 * Decision trees.  Features and thresholds are compared as keys: unsigned integers in the
 * order of the numbers (device_key_f32, device_key_f64), so that a comparison is exact
 * whatever its mode was in the file, and means the same on every device.
 *
 * From node n of a tree a row goes to the node child if its key of the feature is at most
 * n's, else to child + 1.  A NaN's key is above all others; where nan_left[n] is set it goes
 * to child nevertheless.  A leaf has the greatest key and is its own child, so a walk may
 * make more steps than it needs.  Nodes of a tree lie in order of their depth, the root
 * first; child counts from the root.  Two nodes may have the same children.
 */
#define DEVICE_TREE_LANES	8		/* rows whose keys lie side by side: key of row r and feature f
									 * at f · lanes + r; nodes hold f · lanes */

struct device_tree_node				/* F32, where 16 bits are enough for both */
{
	uint32_t	key;
	uint16_t	feature;			/* · DEVICE_TREE_LANES */
	uint16_t	child;
};

struct device_tree_node_wide		/* F32 */
{
	uint32_t	key;
	uint32_t	feature;			/* · DEVICE_TREE_LANES */
	uint32_t	child;
};

struct device_tree_node_f64
{
	uint64_t	key;
	uint32_t	feature;			/* · DEVICE_TREE_LANES */
	uint32_t	child;
};

struct device_trees
{
	uint8_t		type;				/* of x, y, values and weights: F32 or F64 */
	bool		wide;				/* F32: nodes are struct device_tree_node_wide */
	uint32_t	trees_count;
	uint32_t	nodes_count;
	uint32_t	features;
	uint32_t	targets;
	const uint32_t *roots;			/* trees_count: index of each tree's root */
	const uint32_t *depths;			/* trees_count: steps to its deepest leaf */
	const void *nodes;				/* nodes_count, aligned to DEVICE_ALIGN */
	const uint8_t *nan_left;		/* nodes_count, 0 or 1; NULL: nowhere but at leaves */
	const void *values;				/* one target, one vote a leaf, TREES_SUM: nodes_count numbers */
	const uint32_t *votes_first;	/* values NULL: nodes_count + 1, a leaf's votes lie from its own
									 * entry to the next one's */
	const uint32_t *votes_target;
	const void *votes_weight;
};

#define DEVICE_KEY_NAN_F32	UINT32_MAX
#define DEVICE_KEY_NAN_F64	UINT64_MAX

/* The greatest keys are those of NaN; -0 has the key of +0; key 0 is nobody's. */
static inline uint32_t
device_key_f32(uint32_t bits)
{
	uint32_t	magnitude = bits & 0x7FFFFFFF;

	if (magnitude > 0x7F800000)
		return DEVICE_KEY_NAN_F32;
	return bits == magnitude || magnitude == 0 ? magnitude | 0x80000000 : ~bits;
}

static inline uint64_t
device_key_f64(uint64_t bits)
{
	uint64_t	magnitude = bits & INT64_MAX;

	if (magnitude > UINT64_C(0x7FF0000000000000))
		return DEVICE_KEY_NAN_F64;
	return bits == magnitude || magnitude == 0 ? magnitude | UINT64_C(0x8000000000000000) : ~bits;
}

#define DEVICE_Q8_SCALE		4		/* bytes behind a vector of Q8 */
#define DEVICE_Q8_ZERO		128		/* the byte of 0 */
#define DEVICE_Q8_MAX		65536	/* K: sums stay below 2^31 */

#define DEVICE_OP_INTS	(DEVICE_RANK_MAX + 4)

struct device_op
{
	uint16_t	op;					/* enum device_opcode */
	uint16_t	fn;					/* its function, where it has several */
	uint32_t	inputs_count;
	const int32_t *inputs;			/* tensors; -1: absent optional input */
	int32_t		output;				/* tensor */
	int32_t		weight;				/* GEMM: index into the graph's weights, else -1 */
	int32_t		node;				/* what the user knows it as: index for messages, or -1 */
	double		f[2];
	int64_t		i[DEVICE_OP_INTS];
	const void *params;				/* outlives the program */
};

struct device_weight_desc			/* a matrix before packing; W[k][n] at data[k·stride_k + n·stride_n] */
{
	uint8_t		type;				/* of data: DEVICE_F32, DEVICE_F64 (FULL only), DEVICE_F16 or DEVICE_BF16 */
	uint8_t		precision;			/* enum device_precision: what it becomes */
	int64_t		k;
	int64_t		n;
	int64_t		stride_k;			/* elements */
	int64_t		stride_n;
	const void *data;
};

struct device_graph					/* what compile() takes; in topological order */
{
	uint32_t	tensors_count;
	uint32_t	ops_count;
	uint32_t	weights_count;
	uint32_t	bindings_count;
	const struct device_tensor *tensors;
	const struct device_op *ops;
	struct device_weight *const *weights;
	uint64_t	arena_item_bytes[DEVICE_LEADS];	/* per item of each lead; from the memory plan */
};

/* ---- running ---- */

struct device_batch
{
	uint32_t	items[DEVICE_LEADS];	/* [NONE] is 1; unused leads 0 */
	uint32_t	max_len;				/* tokens of the longest row, or 0 */
	uint64_t	pairs;					/* the sum of the squares of the rows' tokens, or 0 */
	const uint32_t *row_off;			/* items[ROWS] + 1: a row's first token; or NULL */
	const uint32_t *row_first;			/* items[ROWS]: how many of a row's tokens POOL passes over; NULL: none */
	uint32_t   *row_error;				/* items[ROWS]: enum infer_error, written by ops; a row
										 * with an error goes on computing, on defined values */
	const char **row_message;			/* items[ROWS]: a constant text, or NULL */
};

#define DEVICE_TICKETS_KEPT	64		/* of a queue, completed: obligation 4 */

enum device_state
{
	DEVICE_PENDING = 0,
	DEVICE_DONE = 1,
	DEVICE_FAILED = 2,				/* this run; the device goes on */
	DEVICE_LOST = 3					/* the device is gone: replace the process */
};

struct device_info
{
	char		kind[16];			/* "cpu", "cuda", "null" */
	char		name[64];			/* "cpu", "cuda:0" */
	char		arch[64];			/* "avx512" */
	char		description[128];	/* the processor's or card's name */
	char		numerics_id[64];	/* kind, architecture, kernel family, library version, precision_default: with
									 * what a model's options say, what the bits of its results depend on */
	char		weight_layout[32];	/* the order of a packed weight's elements, in each precision */
	char		products[64];		/* the kernels of products in BF16 and INT8 */
	char		detail[128];		/* what it lacks and does without ("cuBLASLt 13 not found"), or "" */
	uint32_t	precisions;			/* 1 << enum device_precision of those it has */
	uint8_t		precision_default;	/* BF16 where it was measured to be clearly faster than F32, else FULL */
	double		flops[DEVICE_PRECISIONS];	/* of a product, per second and thread, measured at open */
	uint64_t	bytes_total;
	uint64_t	bytes_budget;
	bool		budget_of_free;		/* it is what was free, or all there is, whatever device_memory_setting() says */
	uint64_t	bytes_used;			/* weights; an arena is checked beside them at enqueue */
	uint64_t	host_copies;		/* tensors copied to the host and back, ever, for ops that are left to it; */
	uint64_t	host_bytes;			/* and their bytes */
	uint32_t	threads;
	bool		async;
	uint32_t	inflight_max;		/* queues of batches that are worth it, with a run in flight each */
	uint32_t	align;				/* bytes */
};

struct device_options
{
	int			threads;			/* 0: as many as usable cores */
	uint64_t	memory;				/* budget in bytes, 0: no bound but the machine's */
	const char *arch;				/* INFER_CPU: one of cpu/isa.c's names, NULL for the best of all */
	const char *faults;				/* null device: "delay=MS,crash=N,…" */
	const char *library;			/* path of infer_cuda.so, or NULL: there is none */
	uint64_t	gpu_memory;			/* budget of each GPU in bytes, 0: what is free, but for a reserve */
	int			gpu;				/* CUDA's ordinal; -1: all of those like the first */
	struct device *host;			/* for a device that leaves ops to the CPU: opened, and closed by who opened it */
	struct status *passed_over;		/* "auto": why it is not the CUDA device; or NULL */
	uint64_t   *beat;				/* raised at every claimed chunk of a batch, or NULL; not by a device with several in
									 * flight, whose runners speak for each */
	uint64_t   *load_beat;			/* and of what is computed at load, or copied to a device with memory of its own */
	uint32_t   *load_busy;			/* not 0 while something is */
};

enum device_use						/* of a queue */
{
	DEVICE_BATCHES = 0,
	DEVICE_CONSTANTS = 1			/* what is computed while a model is loaded */
};

enum device_buffer
{
	DEVICE_BUFFER_ARENA = 1,		/* device memory: the host must not look into it */
	DEVICE_BUFFER_STAGING = 2		/* host memory that the device copies from and to directly */
};

#define DEVICE_SUPPORTS_HOST	0x10000	/* an opcode is less */

struct device_program;
struct device_weight;
struct device_queue;
struct device;

struct device_ops
{
	const char *kind;

	/* When the engine starts, once.  NULL and a status if it cannot serve. */
	struct device *(*open) (const struct device_options *options, struct status *status);

	/* When the engine stops; every program, weight and queue has been freed. */
	void		(*close) (struct device *device);

	/* Any time, from any thread. */
	void		(*info) (struct device *device, struct device_info *info);

	/*
	 * At placement.  Non-zero: this op is computed, by the kernel of that id; with DEVICE_SUPPORTS_HOST
	 * in it by one of the device's host.  Depends on the op, its types and its items' shapes; never on a
	 * number of rows.
	 */
	uint32_t	(*supports) (struct device *device, const struct device_op *op,
							 const struct device_tensor *tensors);

	/* Exact bytes that weight_pack will hold. */
	uint64_t	(*weight_size) (struct device *device, const struct device_weight_desc *desc);

	/* At load, from the loading thread.  Immutable afterwards.  Out of memory: status. */
	struct device_weight *(*weight_pack) (struct device *device,
										  const struct device_weight_desc *desc,
										  struct status *status);
	void		(*weight_free) (struct device *device, struct device_weight *weight);

	/*
	 * A packed weight's bytes, as weight_map takes them: host memory that lives as long as the weight.  NULL: this
	 * device packs as fast as it reads, and no packed form is to be kept.
	 */
	const void *(*weight_data) (struct device *device, const struct device_weight *weight, uint64_t *bytes);

	/*
	 * At load, in place of weight_pack: what weight_data once gave on a device of the same
	 * numerics_id and weight_layout for a weight of the same type, precision, k and n (desc->data is not
	 * read).  data is aligned to DEVICE_ALIGN, outlives the weight, and counts like packed memory.  Another
	 * number of bytes than is right: INFER_ERROR_INPUT.
	 */
	struct device_weight *(*weight_map) (struct device *device, const struct device_weight_desc *desc,
										 const void *data, uint64_t bytes, struct status *status);

	/* At load.  Copies what it needs of graph except constants, params and weights. */
	struct device_program *(*compile) (struct device *device, const struct device_graph *graph,
									   struct status *status);
	void		(*program_free) (struct device *device, struct device_program *program);

	/* Host memory that a program takes. */
	uint64_t	(*program_bytes) (const struct device_program *program);

	/* Exact arena bytes of a run with these items. */
	uint64_t	(*arena_bytes) (const struct device_program *program, const uint32_t items[DEVICE_LEADS]);

	/*
	 * use: enum device_use.  One queue of batches per scheduler; one of constants for each
	 * model that is being loaded, whose work is told apart, since batches go on meanwhile.
	 */
	struct device_queue *(*queue_create) (struct device *device, int use, struct status *status);
	void		(*queue_free) (struct device_queue *queue);

	/*
	 * Run segments [first, last) of a program (UINT32_MAX: to the end; on the CPU every op
	 * is a segment).  bindings: one
	 * pointer per binding, DEVICE_ALIGN-aligned, items end to end; STAGING, or other host memory.  arena: arena_bytes(),
	 * DEVICE_ALIGN-aligned, ARENA of this queue.  Returns the ticket; 0 and a status
	 * if nothing was started.
	 */
	uint64_t	(*enqueue) (struct device_queue *queue, struct device_program *program,
							uint32_t first, uint32_t last, const struct device_batch *batch,
							void *const *bindings, void *arena, struct status *status);

	/*
	 * Memory for runs on a queue (NULL: of no queue in particular), aligned to DEVICE_ALIGN; of STAGING all
	 * zeros.  Counts in the budget.  Both NULL: plain host memory serves (device_buffer_alloc).
	 */
	void	   *(*buffer_alloc) (struct device *device, struct device_queue *queue, int kind, uint64_t bytes,
								 struct status *status);
	void		(*buffer_free) (struct device *device, int kind, void *buffer);

	/*
	 * Where to cut a program that may be interrupted: the last segment, not included, of those
	 * from first on that are together predicted to take at most nsec; one segment at least.
	 * UINT32_MAX: all that are left.  *predicted: nsec of them.  Of the batch its items and
	 * pairs are read (no pairs: rows are taken to be of one length).
	 */
	uint32_t	(*segment_end) (struct device *device, const struct device_program *program,
								uint32_t first, const struct device_batch *batch,
								uint64_t nsec, uint64_t *predicted);

	/* DONE, FAILED and LOST are final and said of a ticket as often as asked, while DEVICE_TICKETS_KEPT keeps it. */
	enum device_state (*poll) (struct device_queue *queue, uint64_t ticket, struct status *status);
	enum device_state (*wait) (struct device_queue *queue, uint64_t ticket, uint64_t usec,
							   struct status *status);

	/* Segments that have not begun are not begun, where a device has such; the ticket still completes. */
	void		(*cancel) (struct device_queue *queue, uint64_t ticket);

	/* Predicted device time, of the same of a batch; and measured. */
	uint64_t	(*estimate_nsec) (struct device *device, const struct device_program *program,
								  const struct device_batch *batch);
	uint64_t	(*elapsed_nsec) (struct device_queue *queue, uint64_t ticket);
};

struct device						/* the first member of each device's own struct */
{
	const struct device_ops *ops;
	uint32_t   *load_busy;			/* atomic: how many runs of queues of constants there are, counted by who asks for
									 * them; or NULL */
	struct device *host;			/* what computes constants, and ops that this device leaves to it; NULL: itself */
};

extern const struct device_ops cpu_device_ops;
extern const struct device_ops null_device_ops;	/* the CPU device, with faults */

/*
 * A device in a library of its own exports DEVICE_LIBRARY, a struct device_library; both sides must be of one
 * version of this file.
 */
#define DEVICE_LIBRARY	"infer_device_library"

struct device_library
{
	uint32_t	ops_bytes;			/* sizeof(struct device_ops), and so on: first, and never moved */
	uint32_t	options_bytes;
	const char *version;			/* INFER_VERSION */
	const struct device_ops *ops;
};

/*
 * Opens what infer.device asks for: "auto", "cpu", "cuda", "cuda:N", "null:FAULT,…"; "auto" is the CUDA device where
 * it can be opened, else the CPU.  Unknown words are an error that names them.
 */
extern struct device *device_open(const char *setting, const struct device_options *options,
								  struct status *status);

/* With its host. */
extern void device_close(struct device *device);

/*
 * Enqueues segments and waits until they have run.  false and a status: INFER_ERROR_DEVICE, or
 * INFER_ERROR_DEVICE_LOST.
 */
extern bool device_run(struct device *device, struct device_queue *queue, struct device_program *program,
					   uint32_t first, uint32_t last, const struct device_batch *batch,
					   void *const *bindings, void *arena, struct status *status);

/* Memory for runs on a queue, as buffer_alloc has it, whatever the device; zeroed where the host may look. */
extern void *device_buffer_alloc(struct device *device, struct device_queue *queue, int kind, uint64_t bytes,
								 struct status *status);
extern void device_buffer_free(struct device *device, int kind, void *buffer);

struct device_names					/* "cuda:0", and "cpu" of what it leaves to its host */
{
	char		own[64];
	char		host[64];
};

extern void device_names(struct device *device, struct device_names *names);

/* Whether its memory is another than the host's, and so what it holds of a model. */
static inline bool
device_has_memory(const struct device *device)
{
	return device->ops->buffer_alloc != NULL;
}

/* The GPUs that it computes on, each with its memory and a copy of every model; of another device 1. */
static inline uint32_t
device_units(const struct device *device, const struct device_info *info)
{
	return device->host != NULL && info->threads > 0 ? info->threads : 1;
}

/* What bounds its memory, for hints: "infer.memory", "infer.gpu_memory". */
static inline const char *
device_memory_setting(const struct device *device)
{
	return device_has_memory(device) ? "infer.gpu_memory" : "infer.memory";
}

/* What helps where a GPU's memory is full, and no setting has more of it. */
#define DEVICE_GPU_FULL	"Unload a model with infer.unload_model(); or end other programs that use the GPU, and call infer.restart_engine()."

/* The hint of an error that says that the budget does not suffice. */
extern void device_memory_hint(const struct device *device, const struct device_info *info, struct status *status);

/* What the constants among tensors take. */
extern uint64_t device_constants_bytes(const struct device_tensor *tensors, uint32_t count);

/* "binary" and "add", "gemm" and "relu": what the user sees of an op; "" where there is nothing. */
extern const char *device_op_name(const struct device_op *op);
extern const char *device_function_name(const struct device_op *op);

/* "float32", "bfloat16"; "f32", "bf16", "int8". */
extern const char *device_type_name(uint8_t type);
extern const char *device_precision_name(uint8_t precision);

/* What no device takes of a matrix: its shape, or this precision of this type.  NULL: nothing is wrong. */
extern const char *device_weight_refusal(const struct device_weight_desc *desc);

/* At compile: indexes of ops and tensors lie within the graph.  false: INFER_ERROR_INTERNAL. */
extern bool device_graph_sound(const struct device_graph *graph, struct status *status);

extern size_t device_type_bytes(uint8_t type);	/* of one element in a tensor */
extern int64_t device_item_elements(const struct device_tensor *tensor);

#endif							/* ENGINE_DEVICE_H */
